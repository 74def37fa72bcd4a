"""`proxrl ablate`: one table from a grid of runs."""

from pathlib import Path
from typing import Annotated

import typer

from configs.errors import ConfigError
from configs.loading.loader import load_config
from pipeline.commands.arguments import Overrides
from pipeline.errors import RunFailed, one_sentence


def ablate(
    config: Annotated[Path, typer.Option("--config", "-c", help="An ablation file, or a run's config with --grid.")],
    overrides: Overrides = None,
    grid: Annotated[list[str] | None, typer.Option("--grid", help="key=value1,value2; may be repeated.")] = None,
    seeds: Annotated[str | None, typer.Option("--seeds", help="Seeds of every variant: 1,2,3.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the runs and the table.")] = Path("runs/ablation"),
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Runs at the same time.")] = 1,
) -> None:
    """Run a grid over any keys and seeds and compare the variants; the same command resumes after a stop.

    Example: proxrl ablate -c configs/ablate/prox_logp_method.yaml --out runs/prox train.total_steps=20
    """
    with one_sentence():
        from pipeline.ablation.runner import Ablation, final_table
        from pipeline.ablation.spec import load_spec
        from pipeline.fitting_table import plain_console
        from pipeline.preflight.check import check

        spec = load_spec(config, grid or [], _seeds(seeds), overrides or [])
        for variant in spec.variants:  # a variant that would be refused is refused before the first one runs
            job = load_config(spec.config, [*spec.overrides, *variant.overrides])
            check(job)
        console = plain_console()
        ablation = Ablation(spec, out, jobs, console)
        results = ablation.run()
        if results:
            console.print(final_table(results))
            console.print(f"{out}/ablation.md, ablation.csv, ablation.json")
        if failed := ablation.failed():
            raise RunFailed("; ".join(failed) + "; the same command runs these again")


def _seeds(text: str | None) -> list[int] | None:
    try:
        return [int(s) for s in text.split(",")] if text else None
    except ValueError:
        raise ConfigError(f"--seeds {text} is no list of whole numbers; write it as 1,2,3") from None
