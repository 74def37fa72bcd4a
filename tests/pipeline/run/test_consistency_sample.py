"""The parity sample against a stand-in fleet and trainer that differ by a known amount."""

import asyncio
from types import SimpleNamespace

import pytest

from configs.schema import Config
from exchange.types import Group
from pipeline.metrics.alarms import disagreement
from pipeline.run.consistency_sample import parity_metrics
from tests.pipeline.groups import prompts, trajectory

APART = 0.25


class Fleet:
    def __init__(self, versions):
        self.slots = [SimpleNamespace(serving=v is not None, version=v) for v in versions]

    async def generate(self, slot, group_id, prompt, epoch, sampling, n, score):
        assert score is False  # no reward is spent on a sample that nothing learns from
        return Group(group_id, prompt.prompt_id, epoch, 0, tuple(trajectory((slot.version,) * 3) for _ in range(n)))


class Trainer:
    async def score(self, shares):
        return [[[x + APART for x in s.behavior_logprobs] for part in share for s in part] for share in shares]


def measure(versions, version):
    return asyncio.run(parity_metrics(Config(), Fleet(versions), Trainer(), prompts(5), version))


def test_every_serving_worker_is_measured_at_lag_0():
    metrics = measure([4, None, 4], 4)
    difference = metrics["mismatch/lag_0/abs_logp_diff"]
    assert float(difference.count) == 2 * 2 * 3  # two serving workers, two samples of three tokens each
    assert float(difference.total / difference.count) == pytest.approx(APART, abs=1e-6)
    assert all(name.startswith("mismatch/lag_0/") for name in metrics)  # the batch's own figures stay its own


def test_what_another_version_sampled_is_no_parity_sample():
    assert measure([3], 4) == {}


@pytest.mark.parametrize(
    ("difference", "probe", "limit", "expected"),
    [
        (2e-4, 1e-6, None, "begin with the check of logits processing"),
        (2e-4, 2e-4, None, "begin with the check of weights"),
        (9e-5, 1e-6, None, None),
        (9e-5, 1e-6, 1e-5, "begin with the check of logits processing"),
    ],
)
def test_the_alarm_names_the_check_to_begin_with(difference, probe, limit, expected):
    row = {"mismatch/lag_0/abs_logp_diff": difference, "weight_sync/probe_mean_abs_diff": probe}
    sentence = disagreement(row, {"model.dtype": "float32", "consistency.limit": limit}.get)
    assert (sentence is None) == (expected is None)
    assert expected is None or expected in sentence
