"""Metrics combine exactly and report the figure they name."""

import itertools
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from actor.metrics import Metric, merge, to_floats

YES = torch.ones(4, dtype=torch.bool)


def test_means_and_extremes_leave_out_what_the_mask_leaves_out():
    values, mask = torch.tensor([1.0, -9.0, 4.0]), torch.tensor([True, False, True])
    assert to_floats({"x": Metric.over(values, mask, extremes=True)}) == {"x": 2.5, "x/min": 1.0, "x/max": 4.0}
    assert to_floats({"x": Metric.over(values, mask, figure="max")}) == {"x": 4.0}


def test_effective_sample_size_by_hand():
    weights = torch.tensor([1.0, 1.0, 1.0, 1.0])
    assert to_floats({"ess": Metric.ess(weights, YES)}) == {"ess": 1.0}
    one = torch.tensor([3.0, 0.0, 0.0, 0.0])
    assert to_floats({"ess": Metric.ess(one, YES)}) == {"ess": 0.25}
    assert to_floats({"ess": Metric.ess(torch.zeros(4), YES)}) == {"ess": 0.0}


def test_correlation_by_hand():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert to_floats({"c": Metric.correlation(x, 3 - 2 * x, YES)}) == {"c": pytest.approx(-1.0)}
    assert to_floats({"c": Metric.correlation(x, torch.ones(4), YES)}) == {}


def test_a_metric_without_values_is_left_out():
    nothing = torch.zeros(4, dtype=torch.bool)
    assert to_floats({"x": Metric.over(torch.ones(4), nothing), "e": Metric.ess(torch.ones(4), nothing)}) == {}


@given(seed=st.integers(0, 2**32 - 1), cuts=st.sets(st.integers(0, 30), max_size=5))
@settings(max_examples=100, deadline=None)
def test_parts_combine_to_the_whole(seed, cuts):
    rng = np.random.default_rng(seed)
    x, y, mask = rng.lognormal(size=30), rng.normal(size=30), rng.uniform(size=30) < 0.7

    def metrics(a, b):
        tx, ty, tm = torch.tensor(x[a:b]), torch.tensor(y[a:b]), torch.tensor(mask[a:b])
        return {
            "mean": Metric.over(tx, tm, extremes=True),
            "max": Metric.over(tx, tm, figure="max"),
            "ess": Metric.ess(tx, tm),
            "corr": Metric.correlation(tx, ty, tm),
            "share": Metric.share(tx[tm].sum(), tm.sum()),
        }

    bounds = [0, *sorted(cuts), 30]
    merged = to_floats(merge(metrics(a, b) for a, b in itertools.pairwise(bounds)))
    kx, ky = x[mask], y[mask]
    expected = {
        "mean": kx.mean(),
        "mean/min": kx.min(),
        "mean/max": kx.max(),
        "max": kx.max(),
        "ess": kx.sum() ** 2 / len(kx) / (kx**2).sum(),
        "corr": np.corrcoef(kx, ky)[0, 1],
        "share": kx.mean(),
    }
    assert merged == pytest.approx(expected, rel=1e-9)


def test_only_the_fields_own_families_call_their_mean_avg():
    one = Metric.over(torch.ones(4), YES)
    names = ["rl/kl_new_old", "mismatch/lag_0/abs_logp_diff", "ppo_actor/update/entropy", "version_stats/lag"]
    assert set(to_floats({n: one for n in names})) == {
        "rl/kl_new_old",
        "mismatch/lag_0/abs_logp_diff",
        "ppo_actor/update/entropy/avg",
        "version_stats/lag/avg",
    }


def test_a_metric_crosses_processes_as_plain_numbers():
    """Tensors would take a file each, and a GPU where they arrive."""
    x = torch.tensor([1.0, 2.5, 4.0, 8.0])
    metrics = {
        "mean": Metric.over(x, YES, extremes=True),
        "ess": Metric.ess(x, YES),
        "c": Metric.correlation(x, x.square(), YES),
        "share": Metric.share(0.5, 2.0),
    }
    wire = pickle.dumps(metrics)
    arrived = pickle.loads(wire)
    assert to_floats(arrived) == to_floats(metrics)
    assert to_floats(merge([arrived, metrics])) == to_floats(merge([metrics, metrics]))
    assert b"_rebuild_tensor" not in wire
