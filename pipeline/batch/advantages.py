"""From scored groups to sequences with one advantage a token.

reward → shaped (bias, scale, clip, overlong penalty) → relative to its group or batch → on the last token that
the policy sampled → GAE over the tokens. Groups hold whatever samples came back; ids, not positions, tie them.

Generalized advantage estimation over token-level rewards, without a value function.

Source: Schulman et al. 2015, arXiv:1506.02438, eq. 16 with V = 0, where δ_t = r_t.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from actor.batch import TrainSequence
from configs.actor_schema import AdvantageConfig
from exchange.types import Group, Trajectory
from pipeline.batch.rewards import mean, normalized_rewards, shaped_reward, spread


def token_advantages(rewards: Sequence[float], mask: Sequence[int], gamma: float, lam: float) -> tuple[float, ...]:
    """A_t = Σ_{l ≥ 0} (γλ)^l · r_{t+l} over the tokens that the policy sampled. [R], [R] → [R].

    Tokens of the environment (mask 0) are no steps of the policy: they are skipped without discount and
    get 0; a reward that sits on one of them counts for the policy's tokens before it.
    """
    assert len(rewards) == len(mask)
    advantages = [0.0] * len(rewards)
    following = 0.0  # advantage of the next policy token
    pending = 0.0  # rewards between this policy token and the next
    for t in range(len(rewards) - 1, -1, -1):
        if mask[t]:
            following = rewards[t] + pending + gamma * lam * following
            advantages[t] = following
            pending = 0.0
        else:
            pending += rewards[t]
    return tuple(advantages)


TokenRewards = Sequence[Sequence[Sequence[float]]]  # [group][trajectory][R]


@dataclass(frozen=True)
class _Sample:
    """A trajectory that can be learnt from: it has a reward and at least one sampled token."""

    index: int  # within its group
    trajectory: Trajectory
    reward: float  # shaped
    token_rewards: Sequence[float]  # [R] besides the reward itself


def compute_advantages(
    groups: Sequence[Group],
    config: AdvantageConfig,
    max_new_tokens: int,
    token_rewards: TokenRewards | None = None,
) -> tuple[list[TrainSequence], dict[str, float]]:
    """Advantages of a batch.

    Trajectories whose reward failed or that hold no sampled token are left out, of the statistics too. What
    `zero_variance` (`filter`, and `resample` for groups that could not be replaced) and `mask_truncated` leave out
    of the loss keeps its place with mask 0.

    Args:
        groups: B groups of the step; their index is `TrainSequence.group`.
        config: `actor.advantage`.
        max_new_tokens: `rollout.sampling.max_new_tokens`.
        token_rewards: [group][trajectory][R] added to the reward, for instance −coef·KL; None for none.

    Returns:
        The sequences, in order of groups, and metrics of the batch: `rl/reward/…`, `advantages/…`.

    Raises:
        ValueError: a reward that is not finite, or a setting outside its list.
    """
    samples = [
        _samples(group, config, max_new_tokens, None if token_rewards is None else token_rewards[i])
        for i, group in enumerate(groups)
    ]
    scores = normalized_rewards([[s.reward for s in group] for group in samples], config)
    sequences: list[TrainSequence] = []
    for index, (group_samples, group_scores) in enumerate(zip(samples, scores, strict=True)):
        dropped = config.zero_variance != "keep" and not _varies(group_samples)
        sequences += [
            _sequence(s, score, index, config, dropped) for s, score in zip(group_samples, group_scores, strict=True)
        ]
    return sequences, _metrics(groups, samples, sequences)


def has_signal(group: Group, config: AdvantageConfig, max_new_tokens: int) -> bool:
    """Whether a group's shaped rewards differ: what `zero_variance=resample` asks of a group before it counts."""
    return _varies(_samples(group, config, max_new_tokens, None))


def _varies(samples: Sequence[_Sample]) -> bool:
    return spread([s.reward for s in samples]) > 0


def _samples(
    group: Group, config: AdvantageConfig, max_new_tokens: int, token_rewards: Sequence[Sequence[float]] | None
) -> list[_Sample]:
    samples = []
    for i, t in enumerate(group.trajectories):
        num_sampled = sum(t.loss_mask)
        if t.reward_failed or num_sampled == 0:
            continue
        reward = shaped_reward(t.reward, num_sampled, config, max_new_tokens)
        if not -float("inf") < reward < float("inf"):
            raise ValueError(
                f"reward of prompt {group.prompt_id!r} is {t.reward}: it must be a finite number; fix the function "
                f"that reward.function names, or let it raise so that the failure is counted"
            )
        extra = (0.0,) * len(t.response_token_ids) if token_rewards is None else token_rewards[i]
        assert len(extra) == len(t.response_token_ids)
        samples.append(_Sample(i, t, reward, extra))
    return samples


def _sequence(sample: _Sample, score: float, group: int, config: AdvantageConfig, dropped: bool) -> TrainSequence:
    t = sample.trajectory
    last = max(i for i, m in enumerate(t.loss_mask) if m)
    rewards = [r + (score if i == last else 0.0) for i, r in enumerate(sample.token_rewards)]
    masked = dropped or (config.mask_truncated and t.finish_reason == "length")
    return TrainSequence(
        prompt_token_ids=t.prompt_token_ids,
        response_token_ids=t.response_token_ids,
        mask=(0,) * len(t.loss_mask) if masked else t.loss_mask,
        behavior_logprobs=t.behavior_logprobs,
        versions=t.versions,
        advantages=token_advantages(rewards, t.loss_mask, config.gamma, config.lam),
        group=group,
        sample=sample.index,
        kept_token_ids=t.kept_token_ids,
    )


def _metrics(
    groups: Sequence[Group], samples: Sequence[Sequence[_Sample]], sequences: Sequence[TrainSequence]
) -> dict[str, float]:
    """Plain figures of the step; means of rewards before and after shaping are over sequences."""
    kept = [s for group in samples for s in group]
    trained = [s for s in sequences if any(s.mask)]
    advantages = [a for s in trained for a, m in zip(s.advantages, s.mask, strict=True) if m]
    metrics = {
        "advantages/num_zero_variance_groups": float(sum(not _varies(g) for g in samples)),
        "advantages/num_failed_rewards": float(sum(t.reward_failed for g in groups for t in g.trajectories)),
        "advantages/num_truncated": float(sum(s.trajectory.finish_reason == "length" for s in kept)),
        "advantages/num_sequences_outside_loss": float(len(sequences) - len(trained)),
    }
    for name, values in (
        ("rl/reward", [s.trajectory.reward for s in kept]),
        ("rl/shaped_reward", [s.reward for s in kept]),
        ("rl/advantage", advantages),
    ):
        if values:
            metrics |= {name: mean(values), f"{name}/min": min(values), f"{name}/max": max(values)}
    return metrics
