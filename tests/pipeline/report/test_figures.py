"""Timing, mismatch by lag, settings that differ, thresholds and layout."""

import numpy as np
import pytest

from pipeline.report.config_diff import config_diff, flattened
from pipeline.report.layout import laid_out
from pipeline.report.mismatch_by_lag import mismatch_by_lag
from pipeline.report.overview import overview
from pipeline.report.run_data import load_run
from pipeline.report.series import Series, metric_series
from pipeline.report.thresholds import Thresholds, thresholds
from pipeline.report.time_breakdown import time_breakdown
from tests.pipeline.report.run_files import write_run


def series(*values):
    n = len(values)
    return Series(np.arange(1.0, n + 1), np.arange(n) * 1.0, np.asarray(values, dtype=np.float64))


def test_mismatch_by_lag_is_in_order_of_lags_with_the_stale_tokens_last():
    found = mismatch_by_lag(
        {
            "mismatch/lag_10/abs_logp_diff": series(3.0),
            "mismatch/lag_2/abs_logp_diff": series(1.0, 2.0),
            "mismatch/lag_0/abs_logp_diff": series(0.25, 0.75),
            "mismatch/stale_kv/abs_logp_diff": series(4.0),
            "mismatch/abs_logp_diff": series(9.0),
        }
    )
    assert list(found.items()) == [("0", 0.5), ("2", 1.5), ("10", 3.0), ("stale kv", 4.0)]


def test_parts_of_a_step_add_up_to_it():
    found = time_breakdown(
        {
            "timing/step_s": series(4.0, 6.0),
            "timing/wait_batch_s": series(1.0, 1.0),
            "timing/train_s": series(2.0, 4.0),
            "timing/proximal_forward_s": series(0.5, 0.5),
            "timing/forward_backward_s": series(1.0, 2.0),
            "timing/eval_s": series(50.0),
        }
    )
    assert found == pytest.approx(
        {
            "waiting for a batch": 1.0,
            "proximal forward": 0.5,
            "forward and backward": 1.5,
            "training, other": 1.0,
            "the rest": 1.0,
        }
    )
    assert sum(found.values()) == pytest.approx(5.0)
    assert time_breakdown({}) == {}


def test_settings_that_differ():
    one = {"run": {"name": "a"}, "actor": {"eps_clip": 0.2, "kl": {"coef": 0.0}, "ids": [1]}, "x": None}
    two = {"run": {"name": "b"}, "actor": {"eps_clip": 0.2, "kl": {"coef": 0.1}, "ids": [1]}, "y": True}
    assert flattened(one)["actor.kl.coef"] == 0.0
    assert config_diff([one, two]) == [
        ("run.name", ["a", "b"]),
        ("actor.kl.coef", ["0.0", "0.1"]),
        ("x", ["null", "—"]),
        ("y", ["—", "true"]),
    ]
    assert config_diff([one]) == []


def run_with(tmp_path, name, **config):
    return load_run(write_run(tmp_path / name, [{"step": 1}], config))


def test_lines_follow_the_settings_that_runs_share(tmp_path):
    fp32 = run_with(tmp_path, "a", model={"dtype": "float32"}, rollout={"max_head_offpolicyness": 2})
    bf16 = run_with(tmp_path, "b", model={"dtype": "bfloat16"}, rollout={"max_head_offpolicyness": 2})
    lag_0 = "mismatch/lag_0/abs_logp_diff"
    assert thresholds(lag_0, [fp32]) == Thresholds(high=1e-4, alarm=1e-4)
    assert thresholds(lag_0, [bf16]) == Thresholds(high=1e-2, alarm=0.1)
    strict = run_with(tmp_path, "c", model={"dtype": "bfloat16"}, consistency={"limit": 0.05})
    assert thresholds(lag_0, [strict]) == Thresholds(high=1e-2, alarm=0.05)
    assert thresholds(lag_0, [fp32, bf16]) == Thresholds()
    assert thresholds("rl/lag/max", [fp32, bf16]) == Thresholds(alarm=2.0)
    assert thresholds("weight_sync/probe_mean_abs_diff", [bf16]) == Thresholds(alarm=0.1)
    assert thresholds("actor/kl_k2", [fp32, bf16]) == Thresholds(0.01, 0.1, 0.2)
    assert thresholds("unheard/of", [fp32]) == Thresholds()


def test_every_metric_has_one_place():
    names = ["rl/reward", "rl/lag", "mismatch/lag_1/kl_k1", "ppo_actor/update/compute_logp/linear/abs_error/avg"]
    sections, left = laid_out(names)
    placed = {section.title: members for section, members in sections}
    assert placed == {
        "Outcome": ["rl/reward"],
        "Proximal approximation": ["ppo_actor/update/compute_logp/linear/abs_error/avg"],
        "Staleness and buffer": ["rl/lag"],
    }
    assert left == ["mismatch/lag_1/kl_k1"]


def test_overview_of_a_finished_run(tmp_path):
    rows = [{"step": 0, "time_s": 1.0, "eval/reward": 0.25, "eval/stderr": 0.03}]
    rows += [{"step": s, "time_s": 60.0 * s, "rl/reward": s / 10, "rl/lag": 1.0} for s in range(1, 11)]
    rows[-1] |= {"eval/reward": 0.5, "eval/stderr": 0.02}
    run = load_run(write_run(tmp_path / "a", rows, {"train": {"total_steps": 10}}, {"train_time_s": 3725.0}))
    found = dict(overview(run, metric_series(run.rows)))
    assert found["state"] == "finished"
    assert found["steps"] == "10 of 10"
    assert found["held-out reward before"] == "0.250 ± 0.030"
    assert found["held-out reward after"] == "0.500 ± 0.020"
    assert found["reward, last tenth"] == "1.000"
    assert found["mean lag"] == "1.00"
    assert found["time"] == "1 h 2 min"
    assert found["generated tok/s"] == "–"
