"""From groups to the batch of a step, with the reference's scores where the KL is part of the reward."""

from collections.abc import Sequence

from configs.schema import Config
from pipeline.batching import StepBatch, build_batch
from pipeline.kl_rewards import kl_token_rewards
from pipeline.reference_scores import reference_logprobs
from pipeline.trainer_group import TrainerGroup
from rollout.types import Group


async def prepare_batch(config: Config, groups: Sequence[Group], trainer: TrainerGroup) -> StepBatch:
    """`build_batch`, after the trainer has scored the groups if it has to."""
    actor, token_rewards = config.actor, None
    if actor.kl.coef > 0 and actor.kl.place == "reward":
        scores = await reference_logprobs(list(groups), trainer, actor)
        token_rewards = kl_token_rewards(groups, scores, actor.kl)
    return build_batch(groups, actor, config.rollout.sampling.max_new_tokens, token_rewards)
