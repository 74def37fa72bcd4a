"""Ray: start or join it, and place trainer ranks (packed) and rollout workers (spread)."""

import os
import signal
from dataclasses import dataclass
from typing import Any

import ray
import torch
from ray._private import auto_init_hook, ray_constants
from ray.util.placement_group import PlacementGroup, placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from configs.schema import Config
from pipeline.failures import RunFailed
from pipeline.process_log import ENV_LOG_FILE
from pipeline.run_folder import RunFolder

PLACEMENT_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class CpuShare:
    """Threads of each process where both halves compute on the CPU."""

    trainer_threads: int
    rollout_threads: int


def cpu_share(config: Config, num_cores: int) -> CpuShare:
    """Divide the cores between trainer ranks and rollout workers; each process gets at least one."""
    trainer = config.actor.num_threads or max(1, num_cores // 2 // config.actor.num_workers)
    rest = max(1, num_cores - trainer * config.actor.num_workers)
    return CpuShare(trainer, max(1, rest // config.rollout.num_workers))


def on_one_machine(config: Config) -> bool:
    """Whether all processes of the run are on this machine, and what they open is for nobody else."""
    return config.scheduler.type == "local"


def start_ray(config: Config) -> None:
    """Start a Ray of the run's own (scheduler.type=local) or join a cluster (ray)."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Ray lowers the priority of its workers by 15; ours are the job itself and share the machine as equals.
    os.environ.setdefault("RAY_worker_niceness", "0")
    # What a worker leaves behind when it is killed, also a process that hangs, is killed with it.
    os.environ.setdefault("RAY_process_group_cleanup_enabled", "1")
    # A call after the end of the run is a mistake; by default Ray would start again for it, and stay.
    # The environment variables of these two switches are read when Ray is imported, which is before this.
    auto_init_hook.enable_auto_connect = False
    # Ray's own handler would answer SIGTERM, by which a run is asked to end, with a dump and an abort.
    ray_constants.RAY_DISABLE_FAILURE_SIGNAL_HANDLER = True
    common: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": "ERROR",
        "runtime_env": {"worker_process_setup_hook": "pipeline.process_setup.set_up"},
    }
    if config.scheduler.type == "ray":
        _init(address=config.scheduler.address or "auto", **common)
        return
    # Nothing of a local run is for other machines: by this switch, meant for desktops, all of Ray listens on loopback.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    ray_constants.ENABLE_RAY_CLUSTER = False  # read from the environment when Ray was imported
    # Actors are sized by us; a small machine still has to hold every rank and worker.
    slots = config.actor.num_workers + config.rollout.num_workers
    _init(
        address="local",
        num_cpus=max(os.cpu_count() or 1, slots),
        num_gpus=torch.cuda.device_count(),
        include_dashboard=False,
        **common,
    )


def _init(**settings: Any) -> None:
    """`ray.init`, after which SIGTERM still does what it did: Ray would leave at once, without an end in order.

    Raises:
        RunFailed: Ray's processes did not start within its own limit of 30 s, at the second attempt either.
    """
    handler = signal.getsignal(signal.SIGTERM)
    for attempt in (1, 2):
        try:
            ray.init(**settings)
            break
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
            ray.shutdown()
            if attempt == 2:
                raise RunFailed("Ray did not start in time, twice: this machine is too busy for it now") from error
    signal.signal(signal.SIGTERM, handler)


class Placement:
    """The placement groups of a run, and Ray options for each of its processes; without `trains` it has no trainer."""

    def __init__(self, config: Config, folder: RunFolder, trains: bool = True) -> None:
        gpus = torch.cuda.is_available()
        trainer = {"CPU": 1.0} | ({"GPU": 1.0} if gpus else {})
        rollout = {"CPU": 1.0} | ({"GPU": float(config.rollout.tensor_parallel_size)} if gpus else {})
        self._folder = folder
        self._trainer = _reserve([trainer] * config.actor.num_workers, "PACK", "trainer ranks") if trains else None
        self._rollout = _reserve([rollout] * config.rollout.num_workers, "SPREAD", "rollout workers")
        self.trainer_gpus, self.rollout_gpus = trainer.get("GPU", 0.0), rollout.get("GPU", 0.0)

    def trainer_options(self, rank: int, env: dict[str, str]) -> dict[str, Any]:
        assert self._trainer is not None, "nothing is trained here"
        return self._options(self._trainer, rank, self.trainer_gpus, f"trainer-{rank}", env)

    def rollout_options(self, worker: int, env: dict[str, str]) -> dict[str, Any]:
        return self._options(self._rollout, worker, self.rollout_gpus, f"rollout-{worker}", env)

    def _options(
        self, group: PlacementGroup, index: int, gpus: float, name: str, env: dict[str, str]
    ) -> dict[str, Any]:
        log = {ENV_LOG_FILE: str(self._folder.logs / f"{name}.log")}
        return {
            "num_cpus": 1,
            "num_gpus": gpus,
            "runtime_env": {"env_vars": env | log},
            "scheduling_strategy": PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index),
        }


def _reserve(bundles: list[dict[str, float]], strategy: str, what: str) -> PlacementGroup:
    group = placement_group(bundles, strategy=strategy)
    if not group.wait(PLACEMENT_TIMEOUT_S):
        have = ray.cluster_resources()
        raise ValueError(
            f"the cluster has no room for {len(bundles)} {what} of {bundles[0]} each "
            f"(it holds CPU={have.get('CPU', 0):g}, GPU={have.get('GPU', 0):g}); "
            "lower actor.num_workers or rollout.num_workers, or add nodes"
        )
    return group
