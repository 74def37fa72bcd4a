"""The reference model's logprobs of a batch, for a KL that is part of the reward."""

from collections.abc import Sequence

from actor.batch import TrainSequence
from actor.packing import plan
from configs.actor_schema import ActorConfig
from pipeline.trainer_group import TrainerGroup
from rollout.types import Group, Trajectory

Scores = list[list[list[float]]]  # [group][trajectory][R]


async def reference_logprobs(groups: Sequence[Group], trainer: TrainerGroup, config: ActorConfig) -> Scores:
    """Score every trajectory with the reference on all ranks, packed like training batches."""
    sequences = [to_score(t) for g in groups for t in g.trajectories]
    shares = [minibatches[0] for minibatches in plan([sequences], config.num_workers, config.max_tokens_per_microbatch)]
    scored = await trainer.score_reference(shares)
    of_sequence: dict[int, list[float]] = {}
    for share, scores in zip(shares, scored, strict=True):
        flat = (s for part in share for s in part)
        of_sequence |= {id(s): list(logprobs) for s, logprobs in zip(flat, scores, strict=True)}
    remaining = iter(sequences)
    return [[of_sequence[id(next(remaining))] for _ in g.trajectories] for g in groups]


def to_score(t: Trajectory) -> TrainSequence:
    """A sequence that is only scored: advantages are zero."""
    return TrainSequence(
        prompt_token_ids=t.prompt_token_ids,
        response_token_ids=t.response_token_ids,
        mask=t.loss_mask,
        behavior_logprobs=t.behavior_logprobs,
        versions=t.versions,
        advantages=(0.0,) * len(t.response_token_ids),
        group=0,
        kept_token_ids=t.kept_token_ids,
    )
