"""Mismatch by hand: both directions, probability space, and which token belongs to which bucket."""

import math

import numpy as np
import pytest
import torch

from actor.metrics import merge, to_floats
from actor.mismatch import mismatch_metrics, version_stats
from tests.actor.random_batches import batch, part, random_case

NAMES = {
    f"{n}"
    for n in (
        "kl_k1", "kl_k3", "kl_k1_reverse", "kl_k3_reverse", "abs_logp_diff", "rel_logp_diff", "prob_diff_mean",
        "prob_corr", "ess", "chi2",
    )
} | {"prob_diff_max"}  # fmt: skip


def test_values_by_hand():
    behavior, proximal = np.array([0.5, 0.2, 0.1]), np.array([0.4, 0.3, 0.1])
    tokens = batch([0, 0, 0, 0], [*np.log(behavior), -7.0], [1.0] * 4, mask=[1, 1, 1, 0])
    got = to_floats(mismatch_metrics(tokens, torch.tensor([*np.log(proximal), -1.0], dtype=torch.float64), 0))
    w, delta = proximal / behavior, np.log(proximal / behavior)
    expected = {
        "kl_k1": -delta.mean(),
        "kl_k3": (w - 1 - delta).mean(),
        "kl_k1_reverse": (w * delta).mean(),
        "kl_k3_reverse": (1 - w + w * delta).mean(),
        "abs_logp_diff": np.abs(delta).mean(),
        "rel_logp_diff": (np.abs(delta) / np.abs(np.log(behavior))).mean(),
        "prob_diff_mean": 0.2 / 3,
        "prob_diff_max": 0.1,
        "prob_corr": np.corrcoef(behavior, proximal)[0, 1],
        "ess": w.sum() ** 2 / 3 / (w**2).sum(),
        "chi2": (w**2).mean() - 1,
    }
    for name, value in expected.items():
        assert got[f"mismatch/{name}"] == pytest.approx(value, rel=1e-6), name
        assert got[f"mismatch/lag_0/{name}"] == pytest.approx(value, rel=1e-6), name


def test_estimators_agree_with_the_true_divergences_in_expectation():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.25, 0.25, 0.5])  # behavior, proximal; 20 samples by p
    samples = [0] * 10 + [1] * 6 + [2] * 4
    tokens = batch(list(range(20)), np.log(p[samples]).tolist(), [1.0] * 20)
    got = to_floats(mismatch_metrics(tokens, torch.tensor(np.log(q[samples])), 0))
    assert got["mismatch/kl_k1"] == pytest.approx((p * np.log(p / q)).sum())
    assert got["mismatch/kl_k3"] == pytest.approx((p * np.log(p / q)).sum())
    assert got["mismatch/kl_k1_reverse"] == pytest.approx((q * np.log(q / p)).sum())
    assert got["mismatch/kl_k3_reverse"] == pytest.approx((q * np.log(q / p)).sum())
    assert got["mismatch/chi2"] == pytest.approx((q**2 / p).sum() - 1)


def test_buckets_by_hand():
    # v = 5. Sequence 0 lived under 5, sequence 1 under 3, sequence 2 saw an update after its first token;
    # the environment token of sequence 3 carries a version that must not make it look updated.
    tokens = batch(
        [0, 0, 1, 2, 2, 2, 3, 3],
        [-1.0] * 8,
        [1.0] * 8,
        mask=[1, 1, 1, 1, 1, 1, 0, 1],
        versions=[5, 5, 3, 4, 5, 5, 0, 5],
    )
    delta = torch.tensor([0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 9.0, 0.02], dtype=torch.float64)
    got = to_floats(mismatch_metrics(tokens, -1.0 + delta, 5))
    assert got["mismatch/lag_0/abs_logp_diff"] == pytest.approx(0.02)
    assert got["mismatch/lag_2/abs_logp_diff"] == pytest.approx(0.1)
    assert got["mismatch/stale_kv/abs_logp_diff"] == pytest.approx(0.4)
    assert got["mismatch/abs_logp_diff"] == pytest.approx(1.16 / 7)
    assert not any("lag_1/" in name for name in got)  # sequence 2's first token is in no bucket but the whole


def test_names_of_every_bucket():
    got = set(to_floats(mismatch_metrics(random_case(5, num_sequences=12).tokens, random_case(5, 12).proximal, 3)))
    buckets = {name.split("/")[1] for name in got if name.count("/") == 2}
    assert "stale_kv" in buckets
    assert {f"mismatch/{n}" for n in NAMES} <= got
    for bucket in buckets:
        # a bucket of one token has no correlation
        assert {f"mismatch/{bucket}/{n}" for n in NAMES if n != "prob_corr"} <= got


def test_micro_batches_combine_to_the_whole():
    case = random_case(8, num_sequences=8)
    parts = [part(case, [7, 0, 3]), part(case, []), part(case, [1, 2]), part(case, [4, 5, 6])]
    whole = to_floats(mismatch_metrics(case.tokens, case.proximal, 4))
    combined = to_floats(merge(mismatch_metrics(p.tokens, p.proximal, 4) for p in parts))
    assert combined == pytest.approx(whole, rel=1e-9)


def test_far_and_excluded_tokens_stay_finite():
    tokens = batch([0, 0, 1], [-80.0, -math.inf, -1.0], [1.0] * 3)
    got = to_floats(mismatch_metrics(tokens, torch.tensor([0.0, -1.0, -math.inf]), 0))
    assert all(math.isfinite(v) for v in got.values())
    assert to_floats(mismatch_metrics(batch([], [], []), torch.zeros(0), 0)) == {}


def test_version_stats_by_hand():
    tokens = batch([0, 0, 1], [-1.0] * 3, [1.0] * 3, mask=[1, 1, 0], versions=[4, 5, 0])
    got = to_floats(version_stats(tokens, 6, 1, 4))
    assert got["version_stats/lag/avg"] == got["rl/lag"] == 1.5
    assert (got["rl/lag/min"], got["rl/lag/max"]) == (1.0, 2.0)
    assert (got["version_stats/behavior_version/min"], got["version_stats/behavior_version/max"]) == (4.0, 5.0)
    assert got["version_stats/proximal_version/avg"] == 6.0
    assert got["version_stats/current_version/avg"] == 6.25
