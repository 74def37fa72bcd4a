"""The metrics of the proximal approximation: exactly the published names for each method, and values by hand."""

import math

import pytest
import torch

from actor.metrics import merge, to_floats
from actor.proximal import compute_logp_metrics, proximal_logprobs
from tests.actor.random_batches import batch, part, random_case

PREFIX = "ppo_actor/update/compute_logp/"

VALUES = ["approx_logp/avg", "behave_imp_weight/avg", "importance_weight/avg"]
# Copied from the published list, trailing underscores included.
PUBLISHED = [
    "approx_logp/avg",
    "abs_error/avg",
    "rel_error/avg",
    "squared_error/avg",
    "behave_imp_weight/avg",
    "behave_imp_weight_abs_error/avg",
    "behave_imp_weight_rel_error_/avg",
    "importance_weight/avg",
    "importance_weight_abs_error_/avg",
    "importance_weight_rel_error_/avg",
]


def measure(method, case, recomputed, minibatch=1):
    used = proximal_logprobs(method, case.tokens, case.logprobs, recomputed, 3, minibatch, 2, "minibatch")
    return compute_logp_metrics(method, case.tokens, case.logprobs, used, recomputed, 3, minibatch, 2, "minibatch")


@pytest.mark.parametrize(
    ("method", "recomputes", "names"),
    [
        ("recompute", True, ["prox_logp_gt/avg"]),
        ("reuse", True, ["prox_logp_gt/avg"]),
        ("loglinear", False, [f"loglinear/{v}" for v in VALUES]),
        ("loglinear", True, ["prox_logp_gt/avg", *(f"loglinear/{v}" for v in VALUES)]),
        ("linear", False, [f"linear/{v}" for v in VALUES]),
        (
            "metrics",
            True,
            ["prox_logp_gt/avg", *(f"{m}/{v}" for m in ("loglinear", "linear", "rollout") for v in PUBLISHED)],
        ),
    ],
)
def test_each_method_reports_exactly_its_names(method, recomputes, names):
    case = random_case(1)
    reported = to_floats(measure(method, case, case.proximal if recomputes else None))
    assert sorted(reported) == sorted(PREFIX + n for n in names)


def test_reuse_knows_the_truth_in_minibatch_zero():
    case = random_case(1)
    reported = to_floats(measure("reuse", case, None, minibatch=0))
    assert reported == {f"{PREFIX}prox_logp_gt/avg": pytest.approx(float(case.logprobs[case.tokens.mask].mean()))}


def test_values_by_hand():
    # One response token and one that must not count. v = 3, minibatch 1 of 2 (v_θ = 3.5), version 2: α = 1/1.5.
    tokens = batch([0, 0], [math.log(0.1), -5.0], [1.0, 1.0], mask=[1, 0], versions=[2, 2])
    current, truth = math.log(0.4), math.log(0.2)
    logprobs = torch.tensor([current, -9.0], dtype=torch.float64)
    recomputed = torch.tensor([truth, -7.0], dtype=torch.float64)
    got = to_floats(compute_logp_metrics("metrics", tokens, logprobs, recomputed, recomputed, 3, 1, 2, "minibatch"))
    approximations = {
        "loglinear": 0.1 ** (1 / 3) * 0.4 ** (2 / 3),
        "linear": 0.1 / 3 + 0.4 * 2 / 3,
        "rollout": 0.1,
    }
    assert got[f"{PREFIX}prox_logp_gt/avg"] == pytest.approx(truth)
    for name, p in approximations.items():
        expected = {
            "approx_logp": math.log(p),
            "abs_error": abs(math.log(p) - truth),
            "rel_error": 100 * abs(math.log(p) - truth) / abs(truth),
            "squared_error": (math.log(p) - truth) ** 2,
            "behave_imp_weight": p / 0.1,
            "behave_imp_weight_abs_error": abs(p / 0.1 - 2),
            "behave_imp_weight_rel_error_": 100 * abs(p / 0.1 - 2) / 2,
            "importance_weight": 0.4 / p,
            "importance_weight_abs_error_": abs(0.4 / p - 2),
            "importance_weight_rel_error_": 100 * abs(0.4 / p - 2) / 2,
        }
        for key, value in expected.items():
            assert got[f"{PREFIX}{name}/{key}/avg"] == pytest.approx(value, rel=1e-6), (name, key)


def test_micro_batches_combine_to_the_whole():
    case = random_case(7, num_sequences=5)
    parts = [part(case, [0, 3]), part(case, [1]), part(case, [2, 4]), part(case, [])]
    whole = to_floats(measure("metrics", case, case.proximal))
    combined = to_floats(merge(measure("metrics", p, p.proximal) for p in parts))
    assert combined == pytest.approx(whole, rel=1e-12)


def test_metrics_without_versions_is_refused():
    tokens = batch([0], [-1.0], [1.0], versions=[-1])
    x = torch.tensor([-1.0], dtype=torch.float64)
    with pytest.raises(ValueError, match="no version between 0 and 3"):
        compute_logp_metrics("metrics", tokens, x, x, x, 3, 0, 1, "minibatch")
