"""The ladder's order, what an unusable engine does to it, and the sentence at the end."""

import asyncio

from configs.schema import Config
from pipeline.doctor import ladder
from pipeline.doctor.console import outcome
from pipeline.doctor.limits import LIMITS, limits_of
from pipeline.doctor.sampler import SamplerFailed
from pipeline.doctor.verdict import failed, not_applicable, passed
from rollout.weights.probe import LIMITS as PROBE_LIMITS


class NoBench:
    async def begin(self):
        return None


def climb(monkeypatch, *rungs, **options):
    monkeypatch.setattr(ladder, "LADDER", tuple((f"rung {i}", rung) for i, rung in enumerate(rungs)))
    return asyncio.run(ladder.climb(NoBench(), **options))


async def good(_):
    return passed("good", "")


async def bad(_):
    return failed("bad", "", "it is broken", "model.dtype")


async def dead(_):
    raise SamplerFailed("it died")


def test_the_first_failure_is_the_cause_whatever_fails_after_it(monkeypatch):
    verdicts = climb(monkeypatch, good, dead, bad, bad)
    assert [v.state for v in verdicts] == ["passed", "not applicable", "failed", "failed"]
    assert ladder.first_cause(verdicts) is verdicts[2]
    assert outcome(verdicts) == "First cause, at rung 'bad': it is broken (see model.dtype)."
    assert len(climb(monkeypatch, good, bad, good, stop_at_failure=True)) == 2
    assert "it died" in verdicts[1].note


def test_nothing_failed():
    assert outcome([passed("a", "")]) == "Sampler and trainer agree on every rung."
    both = [passed("a", ""), not_applicable("b", "why")]
    assert outcome(both) == "Sampler and trainer agree on every rung that applies (1 do not)."


def test_the_ladder_has_twelve_rungs_each_once():
    names = [name for name, _ in ladder.LADDER]
    assert len(names) == len(set(names)) == 12


def test_limits_follow_the_dtype_and_the_probe():
    assert {dtype: row.residue for dtype, row in LIMITS.items()} == PROBE_LIMITS
    config = Config()
    config.model.dtype = "float32"
    assert limits_of(config).residue == 1e-4
    config.consistency.limit = 1e-3
    assert limits_of(config).residue == 1e-3 and limits_of(config).packing == LIMITS["float32"].packing
