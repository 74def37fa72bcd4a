"""Every metric that a run records is in the catalogue, and the catalogue holds what the documents promise."""

import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from actor.batch import Denominators, TokenBatch
from actor.kl import DRIFTING_ABOVE, HEALTHY_UP_TO, SLOW_BELOW
from actor.metrics import Metric, to_floats
from actor.mismatch import mismatch_metrics, version_stats
from actor.objective import update_loss
from actor.proximal import compute_logp_metrics
from configs.actor_schema import ActorConfig, BehaviorCorrectionConfig, KLConfig
from exchange.types import Group, Trajectory, UpdateReport
from pipeline.batch.advantages import compute_advantages
from pipeline.metrics.catalogue import FAMILIES
from pipeline.metrics.docs import metric_doc
from pipeline.report.layout import SECTIONS
from pipeline.report.time_breakdown import LAPS, PHASES
from pipeline.run.held_out import Evaluation
from pipeline.run.step_metrics import buffer_metrics, rollout_metrics, throughput_metrics
from pipeline.workers.weight_sync import sync_metrics

ROOT = Path(__file__).resolve().parents[3]


def trainer_names():
    tokens = TokenBatch(
        mask=torch.tensor([True] * 6),
        sequence=torch.tensor([0, 0, 0, 1, 1, 1]),
        num_sequences=2,
        behavior_logprobs=torch.tensor([-1.0, -0.5, -0.2, -0.3, -2.0, -0.1]),
        versions=torch.tensor([2, 2, 3, 1, 1, 1]),
        advantages=torch.ones(6),
    )
    logprobs = tokens.behavior_logprobs + torch.tensor([0.1, -0.1, 0.05, 0.02, 0.2, -0.02])
    config = ActorConfig(
        kl=KLConfig(coef=0.1), behavior_correction=BehaviorCorrectionConfig(mode="truncate", upper=2.0)
    )
    keep = torch.tensor([True] * 6)
    proximal = logprobs + 0.01
    denominators = Denominators(6.0, 2.0)
    _, metrics = update_loss(tokens, logprobs, proximal, logprobs, -logprobs, denominators, config, keep)
    metrics |= mismatch_metrics(tokens, proximal, 3) | version_stats(tokens, 3, 0, 1)
    for method in ("recompute", "reuse", "loglinear", "linear", "metrics"):
        metrics |= compute_logp_metrics(method, tokens, logprobs, proximal, proximal, 3, 0, 1, "minibatch")
    one = torch.ones(1)
    for name in ("grad_norm", "lr", "num_skipped_updates", "num_outlier_updates"):
        metrics[f"ppo_actor/update/{name}"] = Metric.over(one, one.bool(), extremes=name == "grad_norm")
    return set(to_floats(metrics))


def loop_names():
    trajectory = Trajectory((1,), (2, 3), (-0.1, -0.2), (0, 0), (1, 1), 1.0, "stop")
    groups = [Group("g0", "p0", 0, 0, (trajectory, trajectory))]
    report = UpdateReport(0, 1, 0.1, 0.1, 0.1, 0.1, 3, 1e-7, 1e-6)
    parts = [
        rollout_metrics(groups),
        compute_advantages(groups, ActorConfig().advantage, 8)[1],
        throughput_metrics(10, 10, 1.0, 0.5, 0.1),
        buffer_metrics(1, 1, Counter(), 0),
        sync_metrics([report], 0.1),
        Evaluation(0.5, 0.1, 4, 10.0).metrics(),
        {f"timing/{name}_s": 0.0 for name in (*LAPS, *PHASES, "step", "eval")},
    ]
    return {name for part in parts for name in part}


def test_every_recorded_metric_is_explained():
    names = trainer_names() | loop_names()
    assert {"mismatch/stale_kv/ess", "mismatch/lag_2/kl_k1", "actor/kl_k2", "rl/reward/min"} <= names
    assert sorted(name for name in names if metric_doc(name) is None) == []


def test_laps_and_phases_are_those_that_the_code_times():
    loop = (ROOT / "pipeline" / "run" / "loop.py").read_text()
    trainer = (ROOT / "actor" / "trainer.py").read_text()
    assert set(re.findall(r'timer\.lap\("(\w+)"\)', loop)) == set(LAPS)
    assert set(re.findall(r'timer\("(\w+)"\)', trainer)) == set(PHASES)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_every_plot_shows_a_metric_of_the_catalogue(section):
    examples = [pattern.replace(r"\w+", "linear") for pattern in section.metrics]
    assert [name for name in examples if metric_doc(name) is None] == []


def test_no_name_has_two_entries():
    names = [doc.name for family in FAMILIES for doc in family.metrics]
    assert len(names) == len(set(names))
    for name in trainer_names() | loop_names():
        assert sum(doc.matches(name) for family in FAMILIES for doc in family.metrics) == 1, name


def test_healthy_ranges_are_those_by_which_the_code_judges():
    doc = metric_doc("actor/kl_k2")
    assert (doc.low, doc.high, doc.alarm) == (SLOW_BELOW, HEALTHY_UP_TO, DRIFTING_ABOVE)
    error = metric_doc("ppo_actor/update/compute_logp/loglinear/abs_error/avg")
    assert error.high == 0.01
    assert metric_doc("ppo_actor/update/compute_logp/linear/rel_error/avg").high == 1.0
    assert metric_doc("unheard/of") is None
