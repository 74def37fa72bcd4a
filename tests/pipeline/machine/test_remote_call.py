"""Which errors of a call tell that the process is gone."""

import asyncio
import concurrent.futures

import pytest
import ray

from pipeline.machine.remote import answer, answer_within, is_process_loss


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (ray.exceptions.RayActorError(), True),
        (ray.exceptions.OutOfMemoryError("the node is out of memory"), True),
        (ray.exceptions.OwnerDiedError("ab", None, "step"), True),
        (ray.exceptions.NodeDiedError("gone"), True),
        (ray.exceptions.RaySystemError("gone"), True),
        (ray.exceptions.RayTaskError("step", "traceback", ValueError("a mistake")), False),
        (ray.exceptions.RayTaskError("step", "traceback", ValueError("a mistake")).as_instanceof_cause(), False),
        (ValueError("a mistake"), False),
        (None, False),
    ],
)
def test_a_lost_process_is_told_from_a_failed_call(error, lost):
    assert is_process_loss(error) == lost


class Ref:
    def __init__(self, future):
        self.future = lambda: future


def test_an_answer_has_a_limit_that_names_it():
    done = concurrent.futures.Future()
    done.set_result(5)
    assert asyncio.run(answer(Ref(done))) == 5
    assert asyncio.run(answer_within(Ref(done), 1.0, "five")) == 5
    with pytest.raises(TimeoutError, match=r"^waited 0\.01 s for six$"):
        asyncio.run(answer_within(Ref(concurrent.futures.Future()), 0.01, "six"))
