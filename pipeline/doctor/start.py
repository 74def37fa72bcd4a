"""Starts the job's own engine and trainer, one of each, for as long as the doctor needs them."""

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import ray

from actor.worker import TrainerWorker
from configs.schema import Config
from exchange.types import Prompt
from pipeline.doctor.bench import Bench
from pipeline.doctor.recording_worker import RecordingWorker
from pipeline.doctor.sampler import Sampler
from pipeline.machine.hardware import num_cores
from pipeline.machine.placement import Placement, cpu_share
from pipeline.machine.ray_cluster import ray_session
from pipeline.records.run_folder import RunFolder
from pipeline.run.assembly import probe_token_ids, start_trainer
from rollout.data.dataset import load_prompts
from rollout.data.model_files import context_length
from rollout.data.tokenizer import load_tokenizer

CLOSE_TIMEOUT_S = 5.0
UNLIMITED = 1e9
LEARNING_RATE = 1e-3
"""Of the one or two updates: a job's own rate may move the weights by less than a kernel rounds."""


def one_of_each(config: Config) -> Config:
    """The job with one engine, one trainer rank, no reference model, and updates that can be seen."""
    config = copy.deepcopy(config)
    config.actor.num_workers = config.rollout.num_workers = 1
    config.actor.kl.coef = 0.0
    config.actor.optimizer.lr, config.actor.optimizer.warmup_steps = LEARNING_RATE, 0
    config.actor.optimizer.schedule = "constant"
    config.actor.ppo_n_minibatches = 1
    # A probe beyond its limit would end the engine before the ladder could say why.
    config.rollout.weight_sync.probe_limit = UNLIMITED
    config.rollout.weight_sync.backend = "shared_memory"  # what `Bench` publishes; both halves are on this machine
    return config


def read_prompts(config: Config) -> tuple[Any, list[Prompt]]:
    """Tokenizer and prompts of the job's data set."""
    tokenizer = load_tokenizer(config.model.path, config.model.trust_remote_code)
    found = load_prompts(
        config.dataset,
        tokenizer,
        max_new_tokens=config.rollout.sampling.max_new_tokens,
        max_model_len=context_length(config.model.path),
    )
    return tokenizer, found.prompts


@asynccontextmanager
async def started_bench(
    config: Config,
    folder: RunFolder,
    rollout_class: type[RecordingWorker] = RecordingWorker,
    trainer_class: type[TrainerWorker] = TrainerWorker,
) -> AsyncIterator[Bench]:
    """A bench for the job that `config` describes.

    Raises:
        ValueError: what the user can fix: model, data set, engine arguments.
        SamplerFailed, RunFailed: a half did not start.
    """
    config = one_of_each(config)
    tokenizer, prompts = read_prompts(config)
    sampler, trainer = None, None
    with ray_session(config) as memory:
        try:
            placement = Placement(config, folder)
            trainer = start_trainer(config, placement, trainer_class)
            sampler = _sampler(config, placement, rollout_class)
            await asyncio.gather(trainer.start(), sampler.start())
            memory.note()
            probe = probe_token_ids(config, prompts)
            yield Bench(config, prompts, tokenizer, sampler, trainer, memory.folder, probe)
        finally:
            if sampler is not None:
                await sampler.close(CLOSE_TIMEOUT_S)
            if trainer is not None:
                trainer.close()


def _sampler(config: Config, placement: Placement, rollout_class: type[RecordingWorker]) -> Sampler:
    options = placement.rollout_options(0, cpu_share(config, num_cores()).rollout_threads)
    return Sampler(ray.remote(rollout_class).options(**options).remote(config, 0), config)
