"""Which failed updates another engine may survive."""

import pytest
import ray

from exchange.types import WeightUpdate
from pipeline.errors import RunFailed
from pipeline.workers.repeated_failures import UpdateFailures
from rollout.errors import EngineUnusable, UpdateFailed

FIRST = WeightUpdate(3, (), ("first",), (1, 2), (-1.0,))
SECOND = WeightUpdate(3, (), ("second",), (1, 2), (-1.0,))


def failed(phase="load", cause="RuntimeError: broken", worker=0, version=3):
    kind = cause.partition(":")[0] if ":" in cause else "EngineUnusable"
    return ray.exceptions.RayTaskError("update", "traceback", UpdateFailed(worker, version, phase, cause, kind))


@pytest.mark.parametrize(
    ("errors", "ends"),
    [
        ([(failed(), FIRST), (failed(), SECOND)], True),
        ([(failed(), FIRST), (failed(cause="RuntimeError: other words"), SECOND)], True),
        ([(failed(), FIRST), (failed(worker=1), FIRST)], False),  # the same damaged copy
        ([(failed(), FIRST), (failed(cause="OSError: gone"), SECOND)], False),
        ([(failed(), FIRST), (failed(phase="verify"), SECOND)], False),
        ([(failed(), FIRST), (failed(version=4), SECOND)], False),
        ([(failed(cause="TimeoutError: waited"), FIRST), (failed(cause="TimeoutError: waited"), SECOND)], False),
        ([(failed(cause="its engine process died"), p) for p in (FIRST, SECOND)], False),
        ([(ray.exceptions.RaySystemError("gone"), p) for p in (FIRST, SECOND)], False),
        ([(TimeoutError("waited"), p) for p in (FIRST, SECOND)], False),
        ([(ray.exceptions.RayTaskError("u", "t", EngineUnusable(0, "closing")), p) for p in (FIRST, SECOND)], False),
    ],
)
def test_what_the_same_weights_repeat(errors, ends):
    failures = UpdateFailures()
    *earlier, (error, update) = errors
    for seen, publication in earlier:
        failures.require_another_chance(seen, publication)
    if ends:
        with pytest.raises(RunFailed, match=r"in phase .load.: .* again, in a new engine"):
            failures.require_another_chance(error, update)
    else:
        failures.require_another_chance(error, update)
