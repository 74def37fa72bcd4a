"""The metrics of an update: their names, and their values by hand."""

import math

import pytest
import torch

from actor.batch import Denominators
from actor.metrics import to_floats
from actor.objective import update_loss
from configs.actor_schema import ActorConfig, BehaviorCorrectionConfig, KLConfig
from tests.actor.random_batches import batch

RATIOS, WEIGHTS = [1.5, 0.5, 1.0], [2.0, 1.0, 4.0]  # the third token does not count
BEHAVIOR = [math.log(0.1), math.log(0.2), math.log(0.1)]
TOKENS = batch([0, 1, 1], BEHAVIOR, [1.0, -1.0, 9.0], mask=[1, 1, 0])
PROXIMAL = torch.tensor([b + math.log(w) for b, w in zip(BEHAVIOR, WEIGHTS, strict=True)], dtype=torch.float64)
CURRENT = PROXIMAL + torch.tensor(RATIOS, dtype=torch.float64).log()


def report(ref=None, entropy=None, **settings):
    arguments = (CURRENT, PROXIMAL, ref, entropy, Denominators(2, 2), ActorConfig(**settings))
    return to_floats(update_loss(TOKENS, *arguments)[1])


def test_values_by_hand():
    got = report(entropy=torch.tensor([1.0, 2.0, 99.0]))
    expected = {
        "ppo_actor/update/actor_loss/avg": (-2.0 * 1.2 + 1.0 * 0.8) / 2,
        "ppo_actor/update/importance_weight/avg": 1.0,
        "ppo_actor/update/importance_weight/min": 0.5,
        "ppo_actor/update/importance_weight/max": 1.5,
        "ppo_actor/update/behave_imp_weight/avg": 1.5,
        "ppo_actor/update/behave_imp_weight/min": 1.0,
        "ppo_actor/update/behave_imp_weight/max": 2.0,
        "ppo_actor/update/approx_kl/avg": math.log(1.5 * 0.5) / 2,
        "ppo_actor/update/behave_approx_kl/avg": math.log(2) / 2,
        "ppo_actor/update/clip_ratio/avg": 1.0,
        "ppo_actor/update/dual_clip_ratio/avg": 0.0,
        "ppo_actor/update/entropy/avg": 1.5,
        "rl/entropy": 1.5,
        "rl/logprobs": (math.log(0.3) + math.log(0.1)) / 2,
        "rl/ratio_new_old": (3.0 + 0.5) / 2,
        "rl/clamp_log_ratio_new_old_indicator": 1.0,
        "rl/kl_new_old": ((3 - 1 - math.log(3)) + (0.5 - 1 - math.log(0.5))) / 2,
        "rl/ess": 3.5**2 / 2 / (9 + 0.25),
        "behavior_correction/ess_before": 3.0**2 / 2 / 5,
    }
    for name, value in expected.items():
        assert got[name] == pytest.approx(value), name
    assert not any(name.startswith("actor/kl") for name in got)


def test_reference_metrics_by_hand():
    ref = CURRENT + torch.tensor([0.1, -0.2, 9.0], dtype=torch.float64)
    got = report(ref=ref, kl=KLConfig(type="k2", coef=0.5))
    k2 = (0.01 + 0.04) / 4
    assert got["actor/kl_k1"] == pytest.approx((-0.1 + 0.2) / 2)
    assert got["actor/kl_k2"] == pytest.approx(k2)
    assert got["actor/kl_k3"] == pytest.approx((math.expm1(0.1) - 0.1 + math.expm1(-0.2) + 0.2) / 2)
    assert got["actor/kl_loss"] == pytest.approx(k2)


def test_corrected_weight_and_dual_clip_are_reported():
    correction = BehaviorCorrectionConfig(mode="truncate", upper=1.5)
    got = report(behavior_correction=correction, c_clip=1.0)
    assert got["ppo_actor/update/behave_imp_weight/max"] == pytest.approx(1.5)
    assert got["behavior_correction/max_weight_before"] == pytest.approx(2.0)
    assert got["ppo_actor/update/dual_clip_ratio/avg"] == 0.0


def test_standard_ppo_has_no_behavior_weight():
    got = report(use_decoupled_loss=False)
    assert got["ppo_actor/update/importance_weight/max"] == pytest.approx(3.0)
    assert not any("behave" in name or name.startswith("behavior_correction") for name in got)


def test_a_sequence_objective_reports_sequences():
    tokens = batch([0, 0, 1], [0.0] * 3, [1.0] * 3)
    x = torch.tensor([math.log(4), 0.0, 0.0], dtype=torch.float64)
    arguments = (x, torch.zeros(3).double(), None, None, Denominators(3, 2), ActorConfig(objective="gspo"))
    got = to_floats(update_loss(tokens, *arguments)[1])
    assert got["rl/ratio_new_old"] == pytest.approx(1.5)  # (2 + 1)/2, not (4 + 1 + 1)/3
    assert got["rl/ess"] == pytest.approx(9 / 2 / 5)
    assert got["rl/clamp_log_ratio_new_old_indicator"] == pytest.approx(0.5)
