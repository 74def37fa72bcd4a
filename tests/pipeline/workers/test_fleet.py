"""What a fleet serves: proved versions, requests spread over its workers, and what each failure means."""

import asyncio
import concurrent.futures

import pytest
import ray

from pipeline.errors import RunFailed
from pipeline.workers.slot import FleetLimits, Slot, WorkerLost
from tests.pipeline.groups import group, prompts
from tests.pipeline.stand_in_actors import SAMPLING, Method, made_actors, make_fleet, settle, update  # noqa: F401


def test_a_group_of_an_unverified_version_waits_for_the_proof(actors):
    async def body():
        fleet = make_fleet(actors)
        await fleet.start()
        actors[0].next_group = group("g0", (0, 1))
        slot = fleet.pick()
        task = asyncio.ensure_future(fleet.generate(slot, "g0", prompts(1)[0], 0, SAMPLING, 1))
        await settle()
        assert not task.done()
        await fleet.update(update(1))
        assert (await task).newest_version == 1

    asyncio.run(body())


def test_requests_of_one_moment_are_spread_over_the_workers(actors):
    async def body():
        fleet = make_fleet(actors, num_workers=2)
        await fleet.start()
        for actor in actors:
            actor.next_group = concurrent.futures.Future()
        tasks = []
        for i in range(8):
            tasks.append(fleet.generate(fleet.pick(), f"g{i}", prompts(1)[0], 0, SAMPLING, 1))
        assert [slot.running for slot in fleet.slots] == [4, 4]
        tasks[0].cancel()
        await settle()
        assert [slot.running for slot in fleet.slots] == [3, 4]
        for task in tasks:
            task.cancel()

    asyncio.run(body())


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (MemoryError("no room"), True),
        (ray.exceptions.OutOfMemoryError("the node is out of memory"), True),
        (ray.exceptions.OwnerDiedError("ab", None, "generate_group"), True),  # its node died after it had answered
        (ray.exceptions.RaySystemError("gone"), True),
        (ValueError("a mistake in the code"), False),
        (ray.exceptions.RayTaskError("generate_group", "traceback", ValueError("a mistake in the code")), False),
    ],
)
def test_what_loses_a_worker_and_what_ends_the_run(actors, error, lost):
    def fail(*_):
        raise error

    async def body():
        fleet = make_fleet(actors)
        await fleet.start()
        actors[0].generate_group = Method(fail)
        with pytest.raises(WorkerLost if lost else type(error)):
            await fleet.generate(fleet.pick(), "g0", prompts(1)[0], 0, SAMPLING, 1)
        await settle()
        assert fleet.num_restarts == lost

    asyncio.run(body())


def test_a_worker_that_does_not_start_or_load_in_time_is_named(actors):
    def never_starts(actor, nth):
        actor.start = Method(concurrent.futures.Future)

    async def body():
        fleet = make_fleet(actors, prepare=never_starts)
        fleet._limits = FleetLimits(startup_s=0.05, request_s=5.0, update_s=5.0, max_restarts=0)
        with pytest.raises(RunFailed, match=r"worker 0 did not start: waited 0\.05 s for the engine.*rollout-0\.log"):
            await fleet.start()
        events: list[str] = []
        fleet = make_fleet(actors, on_event=events.append)
        fleet._limits = FleetLimits(startup_s=5.0, request_s=5.0, update_s=0.05, max_restarts=0)
        await fleet.start()
        actors[-1].update = Method(lambda update: concurrent.futures.Future())
        assert await fleet.update(update(1)) == []
        assert "update to version 1 failed: waited 0.05 s for weight update 1 of rollout worker 0" in events[0]

    asyncio.run(body())


def test_a_worker_tells_what_it_does():
    assert Slot(0).state() == "worker 0: starting"
    assert Slot(1, num_restarts=2).state() == "worker 1: starting (restart 2)"
    assert Slot(1, num_restarts=3, given_up=True).state() == "worker 1: given up after 3 restarts"
    assert Slot(0, actor=object(), running=2).state() == "worker 0: no verified version yet, 2 groups in flight"
    assert Slot(0, actor=object(), verified_version=7).state() == "worker 0: version 7, 0 groups in flight"
