"""Runs of an ablation or a study that have begun go on only under the settings with which they began."""

from collections.abc import Sequence
from dataclasses import asdict

from configs.errors import ConfigError, shown
from configs.keys import leaves
from configs.loading.loader import load_config
from pipeline.jobs.queue import Job
from pipeline.records.settings import changed, read_settings

MAY_CHANGE = (
    "run.name",
    "run.dir",
    "scheduler.",
    "trackers.",
    "checkpoint.",
    "train.total_steps",
    "actor.timeout_s",
    "rollout.startup_timeout_s",
    "rollout.request_timeout_s",
    "rollout.max_worker_restarts",
    "rollout.weight_sync.timeout_s",
)
"""Beginnings of keys that change nothing of the steps that are done."""


def check_settings(jobs: Sequence[Job]) -> None:
    """Compare what has begun with the settings given now.

    Sets `num_steps` of every job that has begun to the steps asked for: one that ended with fewer goes on.

    Raises:
        ConfigError: a run began with other settings, and its result would be shown as that of these.
    """
    keys = [key for key in leaves() if not key.startswith(MAY_CHANGE)]
    for job in jobs:
        before = read_settings(job.folder)
        if not before or not job.has_steps:
            continue  # nothing to mix up: it may have failed for the very setting that is changed now
        config = load_config(job.config, job.settings)
        job.num_steps = config.train.total_steps
        for key, old, new in changed(before, asdict(config), keys):
            raise ConfigError(
                f"{job.variant}, seed {job.seed}: {key}={shown(new)}, but the run in {job.folder.root} began "
                f"with {shown(old)}; give it that value, or choose another folder with --out.",
                key,
            )
