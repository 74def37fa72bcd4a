"""What confirms a hypothesis, and what the masks hold."""

import math

import pytest

from exchange.types import Completion, Group, Prompt, Trajectory
from pipeline.doctor.recording_worker import Request
from pipeline.doctor.rungs.shift_and_mask import mask_fault, shifted
from pipeline.doctor.sample import Sample, behavior, explained, masked, mean_abs

LOGPROBS = (-1.0, -2.0, -4.0, -8.0)


def sample(mask=(1, 1, 1, 1), scores=LOGPROBS, finish="stop", sampled=4) -> Sample:
    ids, zeros = (5, 6, 7, 1), (0,) * 4
    trajectory = Trajectory((3, 4), ids, LOGPROBS, zeros, mask, 0.0, finish)
    request = Request((3, 4), Completion(ids[:sampled], LOGPROBS[:sampled], zeros[:sampled], finish))
    group = Group("g", "p", 0, 0, (trajectory,))
    return Sample(0, (Prompt("p", (3, 4), ""),), (group,), ([[request]],), [list(scores)])


def test_only_sampled_tokens_count():
    s = sample(mask=(1, 0, 1, 1))
    assert behavior(s.trajectories) == [-1.0, -4.0, -8.0]
    assert masked(s.trajectories, [[1, 2, 3, 4]]) == [1, 3, 4]


def test_mean_abs():
    assert mean_abs([1.0, 3.0], [2.0, 1.0]) == 1.5
    assert mean_abs([], []) == 0.0
    assert math.isinf(mean_abs([math.nan], [1.0])), "not a number never passes a limit"


def test_a_hypothesis_explains_what_it_takes_away():
    assert explained(0.0, 2.0) == 1.0 and explained(0.5, 2.0) == 0.75
    assert explained(3.0, 2.0) == 0.0 and explained(0.0, 0.0) == 0.0


@pytest.mark.parametrize(("scores", "step"), [((-2.0, -4.0, -8.0, -16.0), -1), ((-0.5, -1.0, -2.0, -4.0), 1)])
def test_a_shift_by_one_is_confirmed_in_its_own_direction(scores, step):
    s = sample(scores=scores)
    difference = mean_abs(scores, LOGPROBS)
    assert shifted(s, step, difference) == 1.0
    assert shifted(s, -step, difference) == 0.0


def test_masks():
    assert mask_fault(sample()) is None
    assert "end token" in (mask_fault(sample(mask=(1, 1, 1, 0))) or "")
    assert mask_fault(sample(mask=(1, 1, 1, 0), sampled=3)) is None, "an environment token is not scored"
    assert "holds 3 tokens where the engine sampled 4" in (mask_fault(sample(mask=(1, 1, 1, 0), finish="length")) or "")
