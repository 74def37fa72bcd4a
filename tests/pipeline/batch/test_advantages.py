"""From groups to advantages: what each token gets, what is left out of the loss, and groups that are not whole."""

import math
from dataclasses import replace

import pytest

from configs.actor_schema import AdvantageConfig
from exchange.types import Group
from pipeline.batch.advantages import compute_advantages, has_signal
from tests.pipeline.groups import group, trajectory

MAX_NEW = 16


def batch(*groups: Group, **settings):
    return compute_advantages(list(groups), AdvantageConfig(**settings), MAX_NEW)


def of(*trajectories) -> Group:
    return Group("g", "p", 0, 0, tuple(trajectories))


def test_group_normalized_rewards_reach_every_token():
    sequences, metrics = batch(group("a", (1, 1, 2), (2,), rewards=(1.0, 0.0)))
    half = 0.5 / 0.5**0.5
    assert sequences[0].advantages == pytest.approx((half,) * 3)
    assert sequences[1].advantages == pytest.approx((-half,))
    assert metrics["rl/reward"] == 0.5 and metrics["rl/shaped_reward/max"] == 1.0
    assert metrics["rl/advantage"] == pytest.approx((3 * half - half) / 4)


def test_everything_of_a_token_keeps_its_place():
    t = replace(
        trajectory((4, 4, 5, 5)),
        behavior_logprobs=(-0.1, -0.2, -0.3, -0.4),
        loss_mask=(1, 0, 1, 1),
        kept_token_ids=((1,), (2,), (3,), (4,)),
    )
    (s,), _ = batch(of(t), baseline="none", scale="none", gamma=0.5)
    assert s.versions == t.versions and s.behavior_logprobs == t.behavior_logprobs and s.mask == (1, 0, 1, 1)
    assert s.response_token_ids == t.response_token_ids and s.kept_token_ids == t.kept_token_ids
    assert s.advantages == (0.25, 0.0, 0.5, 1.0)


def test_the_reward_sits_on_the_last_token_that_the_policy_sampled():
    t = replace(trajectory((0, 0, 0)), loss_mask=(1, 1, 0))
    (s,), _ = batch(of(t), baseline="none", scale="none", gamma=0.5)
    assert s.advantages == (0.5, 1.0, 0.0)


def test_token_rewards_are_added_after_normalization():
    g = group("a", (0, 0), (0,), rewards=(1.0, 0.0))
    config = AdvantageConfig(scale="none")
    sequences, _ = compute_advantages([g], config, MAX_NEW, token_rewards=[[[-0.1, -0.2], [-0.3]]])
    assert sequences[0].advantages == pytest.approx((0.5 - 0.2 - 0.1, 0.5 - 0.2))
    assert sequences[1].advantages == pytest.approx((-0.5 - 0.3,))


def test_a_group_that_lost_samples_is_normalized_over_what_is_left():
    whole = group("a", (0,), (0,), (0,), (0,), rewards=(1.0, 0.0, 0.0, 0.0))
    lost = group("b", (0,), (0,), (0,), rewards=(1.0, 1.0, 0.0))
    sequences, _ = batch(whole, lost, scale="none")
    assert [s.group for s in sequences] == [0, 0, 0, 0, 1, 1, 1]
    advantages = [s.advantages[0] for s in sequences]
    assert advantages == pytest.approx([0.75, -0.25, -0.25, -0.25, 1 / 3, 1 / 3, -2 / 3])


def test_groups_keep_their_index_when_one_is_empty():
    sequences, _ = batch(of(), group("b", (0,), (0,)))
    assert [s.group for s in sequences] == [1, 1]


def test_failed_rewards_are_left_out_of_the_statistics_and_counted():
    failed = replace(trajectory((0,), reward=0.0), reward_failed=True)
    g = of(trajectory((0,), 1.0), trajectory((0,), 0.5), failed)
    sequences, metrics = batch(g, scale="none")
    assert [s.advantages for s in sequences] == [(0.25,), (-0.25,)]
    assert metrics["advantages/num_failed_rewards"] == 1 and metrics["rl/reward"] == 0.75


def test_responses_without_sampled_tokens_are_left_out():
    nothing = replace(trajectory((0,), 5.0), loss_mask=(0,))
    empty = trajectory((), 5.0)
    sequences, _ = batch(of(trajectory((0,), 1.0), nothing, empty, trajectory((0,), 0.0)), scale="none")
    assert [s.advantages for s in sequences] == [(0.5,), (-0.5,)]


@pytest.mark.parametrize("policy", ["filter", "resample"])
def test_zero_variance_groups_leave_the_loss(policy):
    flat, live = group("a", (0, 0), (0,), rewards=(1.0, 1.0)), group("b", (0,), (0,), rewards=(1.0, 0.0))
    sequences, metrics = batch(flat, live, zero_variance=policy)
    assert [s.mask for s in sequences] == [(0, 0), (0,), (1,), (1,)]
    assert metrics["advantages/num_zero_variance_groups"] == 1
    assert metrics["advantages/num_sequences_outside_loss"] == 2
    kept, _ = batch(flat, live)
    assert all(any(s.mask) for s in kept) and kept[0].advantages == (0.0, 0.0)


def test_signal_is_judged_on_shaped_rewards():
    config = AdvantageConfig(reward_clip=1.0)
    assert has_signal(group("a", (0,), (0,), rewards=(1.0, 0.0)), config, MAX_NEW)
    assert not has_signal(group("a", (0,), (0,), rewards=(1.0, 2.0)), config, MAX_NEW)
    assert not has_signal(of(), config, MAX_NEW)
    overlong = AdvantageConfig(overlong_buffer=4)
    assert has_signal(group("a", (0,) * 15, (0,), rewards=(1.0, 1.0)), overlong, MAX_NEW)


def test_truncated_completions_leave_the_loss_but_not_the_baseline():
    cut = replace(trajectory((0,), 0.0), finish_reason="length")
    g = of(trajectory((0,), 1.0), cut)
    sequences, metrics = batch(g, scale="none", mask_truncated=True)
    assert [s.mask for s in sequences] == [(1,), (0,)] and sequences[0].advantages == (0.5,)
    assert metrics["advantages/num_truncated"] == 1
    assert [s.mask for s in batch(g, scale="none")[0]] == [(1,), (1,)]


def test_overlong_penalty_counts_sampled_tokens():
    long = trajectory((0,) * 14, 1.0)
    (s,), _ = batch(of(long), baseline="none", scale="none", overlong_buffer=4, overlong_penalty=1.0)
    assert s.advantages[0] == pytest.approx(1.0 - 0.5)
    partly = replace(long, loss_mask=(1,) * 12 + (0,) * 2)
    (s,), _ = batch(of(partly), baseline="none", scale="none", overlong_buffer=4, overlong_penalty=1.0)
    assert s.advantages[0] == pytest.approx(1.0)


def test_an_empty_batch_and_all_rewards_equal():
    assert batch()[0] == []
    sequences, metrics = batch(*(group(str(i), (0,), (0,), rewards=(0.1, 0.1)) for i in range(3)))
    assert all(s.advantages == (0.0,) for s in sequences)
    assert all(math.isfinite(v) for v in metrics.values())


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_reward_that_is_no_number_is_refused(reward):
    with pytest.raises(ValueError, match="reward of prompt 'p-a' is"):
        batch(group("a", (0,), (0,), rewards=(reward, 0.0)))


@pytest.mark.parametrize("baseline", ["group_mean", "leave_one_out", "batch_mean", "none"])
@pytest.mark.parametrize("scale", ["group_std", "batch_std", "none"])
def test_order_of_groups_does_not_matter(baseline, scale):
    groups = [group("a", (0,), (0,), rewards=(1.0, 0.2)), group("b", (0,), (0,), (0,), rewards=(3.0, 0.0, 0.1))]
    forward = [s.advantages for s in batch(*groups, baseline=baseline, scale=scale)[0]]
    backward = [s.advantages for s in batch(*groups[::-1], baseline=baseline, scale=scale)[0]]
    assert [a[0] for a in backward[3:] + backward[:3]] == pytest.approx([a[0] for a in forward], rel=1e-12)
