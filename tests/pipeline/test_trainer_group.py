"""How the loss of a rank is told from its survivors' complaints, with answers that the test decides."""

import asyncio
import concurrent.futures

import pytest
import ray

from pipeline import trainer_group
from pipeline.failures import TrainerLost
from pipeline.trainer_group import TrainerGroup
from tests.pipeline.test_fleet import Method


class Rank:
    def __init__(self, answer):
        self.save_policy = Method(answer)


def later(error, delay_s):
    future = concurrent.futures.Future()
    asyncio.get_running_loop().call_later(delay_s, future.set_exception, error)
    return future


def run(answers, limit_s=5.0):
    async def body():
        group = TrainerGroup(lambda rank, *_: Rank(answers[rank]), len(answers), 5.0, limit_s)
        await group.save_policy("somewhere")

    asyncio.run(body())


def broken_collective(*_):
    raise RuntimeError("Connection closed by peer")


def test_a_dead_rank_is_reported_as_such_although_the_survivor_complains_first():
    death = ray.exceptions.RayActorError()
    with pytest.raises(TrainerLost, match="a trainer rank died during the trainer's save_policy"):
        run([broken_collective, lambda *_: later(death, 0.2)])


def test_an_error_on_every_rank_is_reported_as_it_is():
    with pytest.raises(RuntimeError, match="Connection closed by peer"):
        run([broken_collective, broken_collective])


def test_one_rank_that_fails_while_the_others_hang_is_reported_after_a_moment(monkeypatch):
    monkeypatch.setattr(trainer_group, "DEATH_NOTICE_S", 0.05)
    with pytest.raises(RuntimeError, match="Connection closed by peer"):
        run([broken_collective, lambda *_: concurrent.futures.Future()])


def test_a_hang_ends_at_the_limit_and_names_what_was_waited_for():
    with pytest.raises(TrainerLost, match=r"waited 0\.05 s for the trainer's save_policy; a trainer rank hangs"):
        run([lambda *_: concurrent.futures.Future()], limit_s=0.05)
