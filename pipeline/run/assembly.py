"""Builds the parts of a run from its config, and ends them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import ray

from actor.worker import TrainerWorker
from configs.schema import Config
from exchange.types import UNVERIFIED, Prompt
from pipeline.machine.hardware import num_cores
from pipeline.machine.placement import Placement, cpu_share, on_one_machine, with_backend
from pipeline.machine.ray_cluster import ray_session
from pipeline.records.run_folder import RunFolder
from pipeline.run.console import RunConsole
from pipeline.workers.broadcast import Broadcast, TransferShape
from pipeline.workers.fleet import Fleet
from pipeline.workers.slot import FleetLimits
from pipeline.workers.trainer_group import TrainerGroup
from pipeline.workers.weight_sync import WeightSync
from rollout.worker import RolloutWorker

CLOSE_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Parts:
    """The processes of a run, started and holding the initial weights."""

    trainer: TrainerGroup
    fleet: Fleet
    sync: WeightSync
    rollout_info: list[dict[str, Any]]
    trainer_info: list[dict[str, Any]]


@asynccontextmanager
async def started(
    config: Config, folder: RunFolder, probe: tuple[int, ...], console: RunConsole
) -> AsyncIterator[Parts]:
    """Ray, the trainer ranks and the rollout workers, for as long as the context lasts."""
    console.phase("starting Ray")
    with ray_session(config) as memory:
        sync: WeightSync | None = None
        fleet: Fleet | None = None
        trainer: TrainerGroup | None = None

        def on_event(sentence: str) -> None:
            console.note(sentence)
            memory.note()
            memory.sweep()

        try:
            placement = Placement(config, folder)
            config = with_backend(config, placement.trainer_gpus, placement.rollout_gpus)
            by_files = config.rollout.weight_sync.backend == "shared_memory"
            trainer = start_trainer(config, placement)
            broadcast = None if by_files else _broadcast(config, trainer, console.note)
            threads = cpu_share(config, num_cores()).rollout_threads
            fleet = start_fleet(config, placement, on_event, threads, broadcast)
            console.phase("starting the trainer and the engines (about a minute on a CPU)")
            trainer_info, rollout_info = await asyncio.gather(trainer.start(), fleet.start())
            memory.note()
            sync = WeightSync(trainer, fleet, probe, memory.folder if by_files else None)
            yield Parts(trainer, fleet, sync, rollout_info, trainer_info)
        finally:
            if fleet is not None:
                await fleet.close(CLOSE_TIMEOUT_S)
            if trainer is not None:
                trainer.close()
            if sync is not None:
                sync.close()


def start_trainer(
    config: Config, placement: Placement, worker_class: type[TrainerWorker] | None = None
) -> TrainerGroup:
    """The processes of the trainer ranks, each a `TrainerWorker`; `TrainerGroup.start` loads the model."""
    threads = cpu_share(config, num_cores()).trainer_threads
    remote = ray.remote(worker_class or TrainerWorker)

    def spawn(rank: int, world_size: int) -> Any:
        return remote.options(**placement.trainer_options(rank, threads)).remote(config, rank, world_size)

    limits = config.rollout.startup_timeout_s, config.actor.timeout_s
    return TrainerGroup(spawn, config.actor.num_workers, *limits, loopback=on_one_machine(config))


def _broadcast(config: Config, trainer: TrainerGroup, on_event: Callable[[str], None]) -> Broadcast:
    sync = config.rollout.weight_sync
    size, buffer_bytes = config.rollout.tensor_parallel_size, sync.bucket_mib << 20
    shape = TransferShape(size, buffer_bytes, sync.timeout_s, on_one_machine(config))
    return Broadcast(trainer, shape, on_event)


def start_fleet(
    config: Config,
    placement: Placement,
    on_event: Callable[[str], None],
    threads: int,
    broadcast: Broadcast | None = None,
    first_version: int = UNVERIFIED,
) -> Fleet:
    """The rollout workers, of `threads` CPU threads each; `Fleet.start` starts their engines.

    `first_version` labels the weights from disk: 0 where there is no trainer whose weights could prove them.
    """
    remote = ray.remote(RolloutWorker)
    options = [placement.rollout_options(worker, threads) for worker in range(config.rollout.num_workers)]

    def spawn(worker: int) -> Any:
        return remote.options(**options[worker]).remote(config, worker, first_version)

    sync = config.rollout.weight_sync
    limits = FleetLimits(
        startup_s=config.rollout.startup_timeout_s,
        request_s=config.rollout.request_timeout_s,
        update_s=sync.timeout_s,
        max_restarts=config.rollout.max_worker_restarts,
    )
    return Fleet(spawn, config.rollout.num_workers, limits, on_event, broadcast, first_version)


def probe_token_ids(config: Config, prompts: list[Prompt]) -> tuple[int, ...]:
    """A fixed sequence that engine and trainer both score after every update: the first prompts' tokens."""
    n = config.rollout.weight_sync.probe_tokens
    ids = [t for p in prompts[:n] for t in p.token_ids]
    return tuple(ids[:n])
