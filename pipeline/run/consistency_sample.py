"""Fresh completions of every worker at the trainer's own version: lag 0 is measured whatever the batch holds."""

import asyncio
from collections.abc import Sequence

import torch

from actor.batch import TrainSequence
from actor.metrics import Metrics, merge
from actor.mismatch import mismatch_metrics
from actor.packing import pack, plan
from configs.schema import Config
from exchange.types import Group, Prompt
from pipeline.batch.kl_rewards import to_score
from pipeline.feed.feeder import train_sampling
from pipeline.workers.fleet import Fleet
from pipeline.workers.slot import WorkerLost
from pipeline.workers.trainer_group import TrainerGroup

PARITY_EPOCH = -2
LAG_0 = "mismatch/lag_0/"


async def parity_metrics(
    config: Config, fleet: Fleet, trainer: TrainerGroup, prompts: Sequence[Prompt], version: int
) -> Metrics:
    """`mismatch/lag_0/…` over one small group of every serving worker, scored by the trainer at `version`.

    Call it between an update that every worker has proved and the next training step: nothing else
    guarantees that both sides hold the same weights while the sample is drawn and scored.
    """
    sampling, n = train_sampling(config), config.consistency.num_samples
    slots = [s for s in fleet.slots if s.serving]

    async def one(index: int) -> Group | None:
        prompt = prompts[(version * len(slots) + index) % len(prompts)]
        try:
            name = f"parity-{version}-{index}"
            return await fleet.generate(slots[index], name, prompt, PARITY_EPOCH, sampling, n, score=False)
        except WorkerLost:
            return None

    groups = await asyncio.gather(*(one(i) for i in range(len(slots))))
    sequences = [to_score(t) for g in groups if g is not None for t in g.trajectories if set(t.versions) == {version}]
    if not sequences:
        return {}
    shares = [m[0] for m in plan([sequences], config.actor.num_workers, config.actor.max_tokens_per_microbatch)]
    scores = await trainer.score(shares)
    parts = [_of_rank(share, s, version) for share, s in zip(shares, scores, strict=True)]
    return {name: metric for name, metric in merge(parts).items() if name.startswith(LAG_0)}


def _of_rank(share: list[list[TrainSequence]], scores: list[list[float]], version: int) -> Metrics:
    """Metrics of one rank's micro-batches `[micro-batch][sequence]`; `scores` are flat by sequence."""
    parts, position = [], 0
    for part in share:
        flat = [x for s in scores[position : position + len(part)] for x in s]
        position += len(part)
        parts.append(mismatch_metrics(pack(part).tokens, torch.tensor(flat, dtype=torch.float64), version))
    return merge(parts)
