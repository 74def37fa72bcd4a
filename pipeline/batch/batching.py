"""From groups to the batch of a step, with the reference's scores where the KL is part of the reward.

From a batch of groups to what each trainer rank gets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from actor.batch import Denominators, TrainSequence
from actor.packing import plan
from configs.actor_schema import ActorConfig
from configs.schema import Config
from exchange.types import Group
from pipeline.batch.advantages import TokenRewards, compute_advantages
from pipeline.batch.kl_rewards import kl_token_rewards, reference_logprobs
from pipeline.workers.trainer_group import RankBatch, TrainerGroup


@dataclass(frozen=True)
class StepBatch:
    """One training step's data, already divided over ranks."""

    shares: list[RankBatch]  # one per rank
    denominators: list[Denominators]  # one per minibatch, over all ranks
    num_tokens: int  # trained positions: prompts and responses
    num_sequences: int
    advantage_metrics: dict[str, float]


def build_batch(
    groups: Sequence[Group], config: ActorConfig, max_new_tokens: int, token_rewards: TokenRewards | None = None
) -> StepBatch:
    """Advantages, minibatches by whole groups, denominators before any filter, packing over ranks."""
    sequences, metrics = compute_advantages(groups, config.advantage, max_new_tokens, token_rewards)
    minibatches = split_by_group(sequences, len(groups), config.ppo_n_minibatches)
    return StepBatch(
        shares=plan(minibatches, config.num_workers, config.max_tokens_per_microbatch),
        denominators=[count(m) for m in minibatches],
        num_tokens=sum(s.num_tokens for s in sequences),
        num_sequences=len(sequences),
        advantage_metrics=metrics,
    )


def split_by_group(sequences: Sequence[TrainSequence], num_groups: int, n: int) -> list[list[TrainSequence]]:
    """Minibatch i holds the groups i·B/n … (i+1)·B/n; a group is never divided."""
    minibatches: list[list[TrainSequence]] = [[] for _ in range(n)]
    for s in sequences:
        minibatches[s.group * n // num_groups].append(s)
    return minibatches


def count(sequences: Sequence[TrainSequence]) -> Denominators:
    """Tokens and sequences that enter the loss; at least 1, so that an empty minibatch has loss 0."""
    num_tokens = sum(sum(s.mask) for s in sequences)
    num_sequences = sum(any(s.mask) for s in sequences)
    return Denominators(float(max(1, num_tokens)), float(max(1, num_sequences)))


async def prepare_batch(config: Config, groups: Sequence[Group], trainer: TrainerGroup) -> StepBatch:
    """`build_batch`, after the trainer has scored the groups if it has to."""
    actor, token_rewards = config.actor, None
    if actor.kl.coef > 0 and actor.kl.place == "reward":
        scores = await reference_logprobs(list(groups), trainer, actor)
        token_rewards = kl_token_rewards(groups, scores, actor.kl)
    return build_batch(groups, actor, config.rollout.sampling.max_new_tokens, token_rewards)
