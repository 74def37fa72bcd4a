"""Where ranks meet, and how the loss of one is told from its survivors' complaints; their answers are the test's."""

import asyncio
import concurrent.futures

import pytest
import ray

from pipeline.errors import TrainerLost
from pipeline.workers import trainer_group
from pipeline.workers.trainer_group import TrainerGroup
from tests.pipeline.stand_in_actors import Method


class Rank:
    def __init__(self, answer):
        self.save_policy = Method(answer)


def later(error, delay_s):
    future = concurrent.futures.Future()
    asyncio.get_running_loop().call_later(delay_s, future.set_exception, error)
    return future


def run(answers, limit_s=5.0):
    async def body():
        group = TrainerGroup(lambda rank, _: Rank(answers[rank]), len(answers), 5.0, limit_s, loopback=True)
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


class MeetingRank:
    """Records what it is asked; only a rank 0 is asked where to meet."""

    def __init__(self, rank, world_size):
        self.rank, self.world_size, self.asked, self.met = rank, world_size, [], []
        self.meeting_point = Method(self._meeting_point)
        self.start = Method(lambda *where: self.met.append(where) or {"rank": rank})

    def _meeting_point(self, loopback):
        self.asked.append(loopback)
        return "10.0.0.7", 4321


@pytest.mark.parametrize("loopback", [True, False])
def test_all_ranks_meet_where_rank_0_runs(loopback):
    ranks = []

    async def body():
        spawn = lambda rank, n: ranks.append(MeetingRank(rank, n)) or ranks[-1]  # noqa: E731
        return await TrainerGroup(spawn, 3, 5.0, 5.0, loopback).start()

    assert asyncio.run(body()) == [{"rank": 0}, {"rank": 1}, {"rank": 2}]
    assert [r.met for r in ranks] == [[("10.0.0.7", 4321)]] * 3
    assert [r.asked for r in ranks] == [[loopback], [], []] and {r.world_size for r in ranks} == {3}
