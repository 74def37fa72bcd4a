"""Runs the variants of a study, each a training run in a process of its own; resumes where it was stopped."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from configs.errors import ConfigError
from configs.loading.loader import load_config
from configs.schema import Config
from pipeline.jobs.queue import Job, JobQueue
from pipeline.jobs.settings import check_settings
from pipeline.machine.hardware import num_gpus
from pipeline.parity.spec import ParitySpec, ParityVariant
from pipeline.records.run_folder import RunFolder
from rollout.engines.registry import worker_options


def variant_config(spec: ParitySpec, variant: ParityVariant) -> Config:
    """The resolved config of one variant.

    Raises:
        ConfigError: naming the key, as for any run.
    """
    return load_config(spec.config, [*spec.overrides, *variant.overrides])


def skipped(spec: ParitySpec) -> dict[str, str]:
    """Variant → why it is not run on this machine."""
    if num_gpus() > 0:
        return {}
    return {v.name: "needs a GPU, and this machine has none" for v in spec.variants if v.needs_gpu}


def check_ready(spec: ParitySpec) -> None:
    """Every variant's config and engine environment, before anything starts.

    Raises:
        ConfigError: a sentence for each environment that is missing, or for each config that is refused, with the
            variants that need it.
    """
    without = skipped(spec)
    reasons: dict[str, list[str]] = {}
    for variant in spec.variants:
        if variant.name not in without:
            try:
                worker_options(variant_config(spec, variant).rollout.engine)
            except ConfigError as error:
                reasons.setdefault(str(error), []).append(variant.name)
    if reasons:
        raise ConfigError("\n".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items()))


def prepare(spec: ParitySpec, console: Console) -> None:
    """Make model and data with the study's `prepare` module where model.path is missing.

    Raises:
        ConfigError: the module failed.
    """
    path = variant_config(spec, spec.reference).model.path
    if spec.prepare is None or Path(path).exists():
        return
    console.print(f"{path} is missing: running python -m {spec.prepare}")
    if subprocess.run([sys.executable, "-m", spec.prepare]).returncode != 0:
        raise ConfigError(f"python -m {spec.prepare} failed, so model.path={path} is missing.", "model.path")


def study_jobs(spec: ParitySpec, root: Path) -> list[Job]:
    """Runs at VARIANT/seed-N: every variant's first seed first, so that an unfinished study can be looked at."""
    without = skipped(spec)
    runs = [
        (order, variant, seed)
        for variant in spec.variants
        if variant.name not in without
        for order, seed in enumerate(variant.seeds)
    ]
    return [_job(spec, variant, seed, root) for _, variant, seed in sorted(runs, key=lambda r: r[0])]


def _job(spec: ParitySpec, variant: ParityVariant, seed: int, root: Path) -> Job:
    folder = RunFolder(root / variant.folder / f"seed-{seed}")
    overrides = (*spec.overrides, *variant.overrides, f"run.name={variant.folder}-seed{seed}")
    return Job(variant.name, seed, folder, spec.config, overrides, dict(variant.env))


def require_begun(jobs: Sequence[Job], root: Path) -> None:
    """A page needs a run.

    Raises:
        ValueError: no run of the study has finished a step.
    """
    if not any(job.rows() for job in jobs):
        raise ValueError(f"{root} holds no step of this study; run it first, or name its folder with --out")


def run_study(spec: ParitySpec, root: Path, console: Console) -> list[Job]:
    """Run what is not finished, one run at a time: they share the machine's cores, and lag depends on speed.

    Raises:
        ConfigError: a run in the folder began with other settings.
    """
    jobs = study_jobs(spec, root.resolve())
    check_settings(jobs)
    queue = JobQueue(jobs, parallel=1, console=console)
    queue.run()
    return queue.jobs
