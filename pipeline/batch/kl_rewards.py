"""The reference model's logprobs of a batch, for a KL that is part of the reward.

KL in the reward: each token pays for how far the policy that sampled it had left the reference.
"""

from collections.abc import Sequence

import torch

from actor.batch import TrainSequence
from actor.kl import kl_estimate
from actor.packing import plan
from actor.ratios import floored
from configs.actor_schema import ActorConfig, KLConfig
from exchange.types import Group, Trajectory
from pipeline.batch.advantages import TokenRewards
from pipeline.workers.trainer_group import TrainerGroup


def kl_token_rewards(
    groups: Sequence[Group], ref_logprobs: Sequence[Sequence[Sequence[float]]], config: KLConfig
) -> TokenRewards:
    """−coef · KL estimate of each token, on the behavior policy's own samples; 0 on environment tokens.

    Args:
        groups: the batch.
        ref_logprobs: [group][trajectory][R] of the reference, temperature applied.
        config: `actor.kl`.

    Returns:
        [group][trajectory][R], for `compute_advantages`.
    """
    return [
        [
            _trajectory_rewards(t.behavior_logprobs, ref, t.loss_mask, config)
            for t, ref in zip(group.trajectories, group_ref, strict=True)
        ]
        for group, group_ref in zip(groups, ref_logprobs, strict=True)
    ]


def _trajectory_rewards(
    behavior_logprobs: Sequence[float], ref_logprobs: Sequence[float], loss_mask: Sequence[int], config: KLConfig
) -> list[float]:
    mask = torch.tensor(loss_mask, dtype=torch.bool)
    behavior = floored(torch.tensor(behavior_logprobs, dtype=torch.float64), mask)
    ref = floored(torch.tensor(ref_logprobs, dtype=torch.float64), mask)
    return (-config.coef * kl_estimate(config.type, behavior, ref)).tolist()


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
