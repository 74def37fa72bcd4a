"""Runs an ablation's variants once a seed and writes their table; resumes where it was stopped."""

from pathlib import Path

from rich.console import Console

from pipeline.ablation.result import VariantResult, run_result, variant_result
from pipeline.ablation.spec import AblationSpec, Variant
from pipeline.ablation.table import HEADER, table_rows, to_csv, to_json, to_markdown
from pipeline.fitting_table import FittingTable
from pipeline.jobs.queue import Job, JobQueue
from pipeline.jobs.settings import check_settings
from pipeline.records.json_lines import finite
from pipeline.records.run_folder import RunFolder, write_json


class Ablation:
    """All runs below one folder: `VARIANT/seed-N`, and `ablation.{md,csv,json}` at the end."""

    def __init__(self, spec: AblationSpec, root: Path, jobs: int, console: Console) -> None:
        self._spec, self._root = spec, root.resolve()
        # Seeds outermost: after a third of the time every variant has been seen once.
        self._jobs = [self._job(v, seed) for seed in spec.seeds for v in spec.variants]
        self._queue = JobQueue(self._jobs, jobs, console)

    def _job(self, variant: Variant, seed: int) -> Job:
        overrides = (*self._spec.overrides, *variant.overrides, f"run.name={variant.folder}")
        folder = RunFolder(self._root / variant.folder / f"seed-{seed}")
        return Job(variant.name, seed, folder, self._spec.config, overrides)

    def run(self) -> list[VariantResult]:
        """Run what is not finished; returns the results of variants with at least one finished run.

        Raises:
            ConfigError: a run in the folder began with other settings.
        """
        check_settings(self._jobs)
        self._root.mkdir(parents=True, exist_ok=True)
        self._queue.run()
        return self.write()

    def failed(self) -> list[str]:
        """A sentence for each run that failed."""
        return [f"{j.variant}, seed {j.seed}: {j.why_unfinished()}" for j in self._jobs if j.failed]

    def results(self) -> list[VariantResult]:
        """Variants with at least one finished run, in the grid's order."""
        out = []
        for variant in self._spec.variants:
            finished = [j for j in self._jobs if j.variant == variant.name and j.finished]
            if finished:
                out.append(variant_result(variant.name, [run_result(j.seed, j.summary(), j.rows()) for j in finished]))
        return out

    def write(self) -> list[VariantResult]:
        """Write the table in three formats."""
        results = self.results()
        if results:
            rows = table_rows(results)
            (self._root / "ablation.md").write_text(to_markdown(rows))
            (self._root / "ablation.csv").write_text(to_csv(rows))
            write_json(self._root / "ablation.json", finite(to_json(results)))
        return results


def final_table(results: list[VariantResult]) -> FittingTable:
    """The document's table for the console."""
    table = FittingTable(HEADER)
    for row in table_rows(results):
        table.add_row(*row.cells())
    return table
