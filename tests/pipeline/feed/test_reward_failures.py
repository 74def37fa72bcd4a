"""The limit on failed rewards, by hand: 0.1 of 200 lets 20 fail."""

from dataclasses import replace

import pytest

from configs.schema import RewardConfig
from pipeline.errors import RunFailed
from pipeline.feed.feeder import RewardFailures
from tests.pipeline.groups import trajectory

GOOD = trajectory((0,))
FAILED = replace(GOOD, reward_failed=True, reward_error="ZeroDivisionError: division by zero")


def test_the_run_stops_at_the_first_failure_beyond_the_limit():
    failures = RewardFailures(RewardConfig(max_failure_fraction=0.1))
    assert failures.count([FAILED] * 20) == 20
    assert failures.count([GOOD] * 5) == 0
    with pytest.raises(RunFailed, match=r"21 of the last 26 rewards failed .*0\.1 of 200.*division by zero"):
        failures.count([FAILED])


def test_old_failures_are_forgotten():
    failures = RewardFailures(RewardConfig(max_failure_fraction=0.1))
    failures.count([FAILED] * 20)
    failures.count([GOOD] * 180)
    assert failures.count([FAILED]) == 1  # the first of the 20 has just left the window


def test_failures_before_a_resume_count():
    failures = RewardFailures(RewardConfig(max_failure_fraction=0.1))
    failures.count([FAILED] * 20)
    resumed = RewardFailures(RewardConfig(max_failure_fraction=0.1))
    resumed.recent.extend(failures.recent)
    with pytest.raises(RunFailed):
        resumed.count([FAILED])


def test_without_tolerance_one_failure_is_enough():
    failures = RewardFailures(RewardConfig(max_failure_fraction=0.0))
    assert failures.count([GOOD]) == 0
    with pytest.raises(RunFailed):
        failures.count([FAILED])
