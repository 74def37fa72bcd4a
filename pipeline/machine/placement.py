"""Places of trainer ranks (packed) and rollout workers (spread) on the machines of a Ray cluster.

Which way the weights take from the trainer to the engines.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import ray
import torch
from ray.util.placement_group import PlacementGroup, placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from configs.checks.engines import NATIVE_ENGINE
from configs.schema import Config
from pipeline.machine.processes import ENV_LOG_FILE
from pipeline.records.run_folder import RunFolder
from rollout.engines.registry import worker_options

Backend = Literal["shared_memory", "nccl"]


def weight_backend(
    backend: Literal["auto", "shared_memory", "nccl"], engine: str, trainer_gpus: float, rollout_gpus: float
) -> Backend:
    """What `rollout.weight_sync.backend` comes to, given the GPUs of each trainer rank and of each rollout worker.

    NCCL needs a whole GPU for every rank of a group, and only the native engine has a receiver for it.
    """
    if backend != "auto":
        return backend
    every_process_has_one = trainer_gpus >= 1 and rollout_gpus >= 1
    return "nccl" if every_process_has_one and engine == NATIVE_ENGINE else "shared_memory"


def with_backend(config: Config, trainer_gpus: float, rollout_gpus: float) -> Config:
    """The config with `auto` replaced by what it comes to."""
    sync = config.rollout.weight_sync
    chosen = weight_backend(sync.backend, config.rollout.engine, trainer_gpus, rollout_gpus)
    return replace(config, rollout=replace(config.rollout, weight_sync=replace(sync, backend=chosen)))


PLACEMENT_TIMEOUT_S = 120.0
ROLLOUT_CALLS = 4096  # that a rollout worker answers at the same time: one waits for each prompt in flight


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


class Placement:
    """The placement groups of a run, and Ray options for each of its processes; without `trains` it has no trainer."""

    def __init__(self, config: Config, folder: RunFolder, trains: bool = True) -> None:
        gpus = torch.cuda.is_available()
        self._folder, self._engine = folder, config.rollout.engine
        self.trainer_gpus = 1.0 if gpus else 0.0
        self.rollout_gpus = float(config.rollout.tensor_parallel_size) if gpus else 0.0
        wanted = config.rollout.weight_sync.backend
        backend = weight_backend(wanted, self._engine, self.trainer_gpus, self.rollout_gpus)
        here = {} if on_one_machine(config) or not trains or backend == "nccl" else _this_machine()
        trainer, rollout = ({"CPU": 1.0} | here | _gpus(n) for n in (self.trainer_gpus, self.rollout_gpus))
        self._trainer = _reserve([trainer] * config.actor.num_workers, "PACK", "trainer ranks") if trains else None
        self._rollout = _reserve([rollout] * config.rollout.num_workers, "SPREAD", "rollout workers")

    def trainer_options(self, rank: int, threads: int) -> dict[str, Any]:
        """Ray options of a trainer rank with that many CPU threads."""
        assert self._trainer is not None, "nothing is trained here"
        return self._options(self._trainer, rank, self.trainer_gpus, f"trainer-{rank}", threads)

    def rollout_options(self, worker: int, threads: int) -> dict[str, Any]:
        """Ray options of a rollout worker with that many CPU threads, in its engine's environment.

        Raises:
            ConfigError: that environment is not ready.
        """
        engine = worker_options(self._engine)
        options = self._options(self._rollout, worker, self.rollout_gpus, f"rollout-{worker}", threads)
        env = options["runtime_env"]["env_vars"] | engine.get("env_vars", {})
        runtime_env = engine.get("runtime_env", {}) | {"env_vars": env}
        return options | {"runtime_env": runtime_env, "max_concurrency": ROLLOUT_CALLS}

    def _options(self, group: PlacementGroup, index: int, gpus: float, name: str, threads: int) -> dict[str, Any]:
        env = {"OMP_NUM_THREADS": str(threads), ENV_LOG_FILE: str(self._folder.logs / f"{name}.log")}
        return {
            "num_cpus": 1,
            "num_gpus": gpus,
            "runtime_env": {"env_vars": env},
            "scheduling_strategy": PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index),
        }


def _gpus(number: float) -> dict[str, float]:
    return {"GPU": number} if number else {}


def _this_machine() -> dict[str, float]:
    """A little of what only this machine has: weights that travel through its shared memory reach nobody else."""
    return {f"node:{ray.util.get_node_ip_address()}": 0.001}


def _reserve(bundles: list[dict[str, float]], strategy: str, what: str) -> PlacementGroup:
    group = placement_group(bundles, strategy=strategy)
    if not group.wait(PLACEMENT_TIMEOUT_S):
        have = ray.cluster_resources()
        pinned = any(name.startswith("node:") for name in bundles[0])
        where = ", all on this machine, through whose shared memory the weights travel" if pinned else ""
        raise ValueError(
            f"the cluster has no room for {len(bundles)} {what} of {bundles[0]} each{where} "
            f"(it holds CPU={have.get('CPU', 0):g}, GPU={have.get('GPU', 0):g}); "
            "lower actor.num_workers or rollout.num_workers, or add nodes"
        )
    return group
