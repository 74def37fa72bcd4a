"""Behavior weights by hand at every level and mode, the veto, and what the sample is worth before and after."""

import pytest
import torch

from actor.correction import behavior_weights
from actor.metrics import merge, to_floats
from configs.actor_schema import BehaviorCorrectionConfig
from tests.actor.random_batches import batch, part, random_case

# Sequence 0: weights 2 and 8 (and 100 outside the mask); sequence 1: weight 0.1.
TOKENS = batch([0, 0, 0, 1], [0.0] * 4, [0.0] * 4, mask=[1, 1, 0, 1])
PROXIMAL = torch.tensor([2.0, 8.0, 100.0, 0.1], dtype=torch.float64).log()


def weights(level, mode="none", lower=None, upper=None, veto=None):
    config = BehaviorCorrectionConfig(mode=mode, level=level, lower=lower, upper=upper, token_veto=veto)
    got = behavior_weights(PROXIMAL, TOKENS.behavior_logprobs, TOKENS, config, level)
    return got.tokens.tolist(), to_floats(got.metrics)


@pytest.mark.parametrize(
    ("level", "mode", "expected"),
    [
        ("token", "none", [2, 8, 0, 0.1]),
        ("token", "truncate", [2, 3, 0, 0.5]),
        ("token", "mask", [2, 0, 0, 0]),
        ("sequence", "none", [16, 16, 0, 0.1]),
        ("sequence", "truncate", [3, 3, 0, 0.5]),
        ("sequence", "mask", [0, 0, 0, 0]),
        ("geometric", "none", [4, 4, 0, 0.1]),
        ("geometric", "truncate", [3, 3, 0, 0.5]),
        ("geometric", "mask", [0, 0, 0, 0]),
    ],
)
def test_levels_and_modes_by_hand(level, mode, expected):
    bounds = {} if mode == "none" else {"lower": 0.5, "upper": 3.0}
    assert weights(level, mode, **bounds)[0] == pytest.approx(expected)


def test_bounds_are_one_sided_where_one_is_missing():
    assert weights("token", "truncate", upper=3.0)[0] == pytest.approx([2, 3, 0, 0.1])
    assert weights("token", "mask", lower=0.5)[0] == pytest.approx([2, 8, 0, 0])


@pytest.mark.parametrize("level", ["token", "sequence", "geometric"])
def test_veto_drops_the_whole_sequence_of_one_unlikely_token(level):
    assert weights(level, veto=3.0)[0] == [0, 0, 0, 0]  # 2 and 0.1 are below
    kept = weights(level, veto=0.5)[0]
    assert kept[3] == 0 and min(kept[:2]) > 0
    assert weights(level, veto=0.05)[0][3] > 0


def test_sample_size_before_and_after_truncation():
    _, metrics = weights("token", "truncate", lower=None, upper=3.0)
    before, after = [2, 8, 0.1], [2, 3, 0.1]
    assert metrics["behavior_correction/ess_before"] == pytest.approx(sum(before) ** 2 / 3 / sum(w * w for w in before))
    assert metrics["behavior_correction/ess_after"] == pytest.approx(sum(after) ** 2 / 3 / sum(w * w for w in after))
    assert metrics["behavior_correction/max_weight_before"] == pytest.approx(8)
    assert metrics["behavior_correction/max_weight_after"] == pytest.approx(3)
    assert metrics["behavior_correction/chi2_before"] == pytest.approx(sum(w * w for w in before) / 3 - 1)
    assert metrics["behavior_correction/filtered_fraction"] == 0


def test_filtered_tokens_stay_in_the_count():
    _, metrics = weights("token", "mask", lower=0.5, upper=3.0)
    assert metrics["behavior_correction/filtered_fraction"] == pytest.approx(2 / 3)
    assert metrics["behavior_correction/ess_after"] == pytest.approx(2**2 / 3 / 2**2)


def test_sequence_levels_count_sequences():
    _, metrics = weights("geometric")
    assert metrics["behavior_correction/ess_before"] == pytest.approx(4.1**2 / 2 / (16 + 0.01))


def test_weights_carry_no_gradient():
    proximal = PROXIMAL.clone().requires_grad_()
    for level in ("token", "sequence", "geometric"):
        got = behavior_weights(proximal, TOKENS.behavior_logprobs, TOKENS, BehaviorCorrectionConfig(), level)
        assert not got.tokens.requires_grad


@pytest.mark.parametrize("level", ["token", "sequence", "geometric"])
def test_metrics_of_micro_batches_combine_to_the_whole(level):
    case = random_case(3, num_sequences=6)
    config = BehaviorCorrectionConfig(mode="mask", level=level, lower=0.7, upper=1.5, token_veto=0.4)

    def metrics(c):
        return behavior_weights(c.proximal, c.tokens.behavior_logprobs, c.tokens, config, level).metrics

    parts = [part(case, [5, 0]), part(case, []), part(case, [1, 2, 3]), part(case, [4])]
    assert to_floats(merge(metrics(p) for p in parts)) == pytest.approx(to_floats(metrics(case)), rel=1e-12)


def test_unknown_settings_name_their_key():
    with pytest.raises(ValueError, match=r"actor\.behavior_correction\.level is 'word'"):
        weights("word")
    with pytest.raises(ValueError, match=r"actor\.behavior_correction\.mode is 'drop'"):
        weights("token", "drop")
