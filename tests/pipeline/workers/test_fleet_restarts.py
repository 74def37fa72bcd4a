"""A fleet replaces the workers it loses, gives up those that fail over and over, and has weights published again."""

import asyncio
import concurrent.futures
from dataclasses import replace

import pytest
import ray

from pipeline.errors import RunFailed
from pipeline.workers.slot import NoWorkersLeft, WorkerLost
from rollout.errors import EngineUnusable, UpdateFailed
from tests.pipeline.groups import group, prompts
from tests.pipeline.stand_in_actors import (  # noqa: F401 - a fixture among them
    SAMPLING,
    Method,
    StandInActor,
    failing,
    made_actors,
    make_fleet,
    settle,
    update,
)


def test_a_failed_update_discards_what_was_sampled_and_replaces_the_worker(actors):
    async def body():
        events: list[str] = []
        fleet = make_fleet(actors, on_event=events.append)
        await fleet.start()
        actors[0].next_group = group("g0", (0, 1))
        actors[0].fail_update = True
        task = asyncio.ensure_future(fleet.generate(fleet.pick(), "g0", prompts(1)[0], 0, SAMPLING, 1))
        await settle()
        assert await fleet.update(update(1)) == []
        with pytest.raises(WorkerLost):
            await task
        await settle()
        assert actors[0].killed
        assert actors[1].updates == [1]  # the replacement holds the published weights before it serves
        assert fleet.pick().verified_version == 1
        assert any("probe disagrees" in e for e in events)

    asyncio.run(body())


def test_an_unusable_engine_is_replaced_and_its_group_lost(actors):
    async def body():
        fleet = make_fleet(actors)
        await fleet.start()
        actors[0].generate_group = Method(raise_unusable)
        with pytest.raises(WorkerLost, match="its engine process died"):
            await fleet.generate(fleet.pick(), "g0", prompts(1)[0], 0, SAMPLING, 1)
        await settle()
        assert actors[0].killed and len(actors) == 2

    asyncio.run(body())


def raise_unusable(*_):
    raise EngineUnusable(0, "its engine process died")


def test_a_worker_that_hangs_is_replaced_and_its_group_lost(actors):
    async def body():
        fleet = make_fleet(actors, request_s=0.05)
        await fleet.start()
        actors[0].next_group = concurrent.futures.Future()  # never answered
        with pytest.raises(WorkerLost, match=r"waited 0\.05 s for group g0"):
            await fleet.generate(fleet.pick(), "g0", prompts(1)[0], 0, SAMPLING, 1)
        await settle()
        assert actors[0].killed and fleet.pick() is not None and len(actors) == 2

    asyncio.run(body())


def test_a_worker_lost_just_before_its_update_is_left_out_of_it(actors):
    async def body():
        fleet = make_fleet(actors, num_workers=2)
        await fleet.start()
        updating = asyncio.ensure_future(fleet.update(update(1)))
        await asyncio.sleep(0)  # who is updated is settled; no update has begun
        fleet.replace(fleet.slots[0], 1, "killed")
        assert [r.worker for r in await updating] == [1]
        await settle()
        assert [s.verified_version for s in fleet.slots] == [1, 1] and actors[2].updates == [1]

    asyncio.run(body())


def test_the_others_go_on_while_one_is_replaced(actors):
    async def body():
        fleet = make_fleet(actors, num_workers=2)
        await fleet.start()
        fleet.replace(fleet.slots[0], 1, "killed")
        assert fleet.pick() is fleet.slots[1]
        await settle()

    asyncio.run(body())


def test_a_worker_that_fails_over_and_over_is_given_up_and_the_run_told(actors):
    def prepare(actor, nth):
        actor.fail_start = nth > 1

    async def body():
        fleet = make_fleet(actors, max_restarts=2, prepare=prepare)
        await fleet.start()
        fleet.replace(fleet.slots[0], fleet.slots[0].incarnation, "killed")
        await settle()
        assert len(actors) == 3 and all(a.killed for a in actors)
        with pytest.raises(NoWorkersLeft) as left:
            fleet.pick()
        assert "rollout.max_worker_restarts=2" in str(left.value)
        assert str(left.value).endswith("last reason was: rollout worker 0 did not come back: System error: no memory")

    asyncio.run(body())


def test_one_is_given_up_and_the_others_go_on(actors):
    def prepare(actor, nth):
        actor.fail_start = nth > 2

    async def body():
        fleet = make_fleet(actors, num_workers=2, max_restarts=1, prepare=prepare)
        await fleet.start()
        fleet.replace(fleet.slots[0], 1, "killed")
        await settle()
        assert fleet.slots[0].given_up and fleet.pick() is fleet.slots[1]
        assert [r.worker for r in await fleet.update(update(1))] == [1]
        actors[1].next_group = group("g0", (0, 1))
        assert (await fleet.generate(fleet.pick(), "g0", prompts(1)[0], 0, SAMPLING, 1)).group_id == "g0"

    asyncio.run(body())


def test_a_restart_that_another_failure_ends_is_told_to_whoever_waits_for_workers(actors):
    async def body():
        fleet = make_fleet(actors)
        await fleet.start()

        def spawn(index):
            raise RunFailed("a trainer rank died")

        fleet._spawn = spawn
        fleet.replace(fleet.slots[0], 1, "killed")
        await settle()
        with pytest.raises(RunFailed, match="a trainer rank died"):
            fleet.pick()

    asyncio.run(body())


def test_closing_ends_a_restart_before_anything_else(actors):
    async def body():
        fleet = make_fleet(actors)
        await fleet.start()
        started = concurrent.futures.Future()  # the replacement never starts

        def prepare(index):
            actor = StandInActor(index)
            actor.start = Method(lambda: started)
            actors.append(actor)
            return actor

        fleet._spawn = prepare
        fleet.replace(fleet.slots[0], 1, "killed")
        await settle()
        await fleet.close(0.1)
        assert [a.killed for a in actors] == [True, True]

    asyncio.run(body())


def test_what_fails_because_the_fleet_closes_is_not_replaced(actors):
    async def body():
        fleet = make_fleet(actors)
        await fleet.start()
        pending = concurrent.futures.Future()
        actors[0].update = Method(lambda update: pending)
        update_task = asyncio.ensure_future(fleet.update(update(1)))
        await settle()
        await fleet.close(0.1)
        pending.set_exception(ray.exceptions.RaySystemError("the actor died"))
        assert await update_task == []
        await settle()
        assert len(actors) == 1 and fleet.num_restarts == 0

    asyncio.run(body())


def test_a_restart_can_be_cancelled_where_its_process_cannot_be_killed(actors, monkeypatch):
    """After the end of Ray a kill raises, which must not hide the cancellation from the loop that would start again."""

    async def body():
        def never_starts(actor, nth):
            if nth > 1:
                actor.start = Method(concurrent.futures.Future)

        fleet = make_fleet(actors, prepare=never_starts)
        await fleet.start()
        fleet.replace(fleet.slots[0], fleet.slots[0].incarnation, "gone")
        await settle()
        assert len(actors) == 2

        def refuse(actor):
            raise ray.exceptions.RaySystemError("Ray has ended")

        monkeypatch.setattr(ray, "kill", refuse)
        (restart,) = fleet._restarts
        restart.cancel()
        await settle()
        assert restart.cancelled() and len(actors) == 2

    asyncio.run(body())


def test_weights_that_a_worker_could_not_load_are_published_again(actors):
    """The files may be damaged, and the trainer may be waiting for samples and publish nothing newer."""
    asked = []

    async def renew(damaged):
        asked.append(damaged)
        await asyncio.sleep(0)
        return replace(damaged, buckets=("again",))

    def prepare(actor, nth):
        whole = actor._update

        def load(given):
            if given.buckets != ("again",):
                raise ray.exceptions.RaySystemError("file not fully covered")
            return whole(given)

        actor.update = Method(load)

    async def body():
        fleet = make_fleet(actors, num_workers=3, prepare=prepare)
        fleet.renew = renew
        await fleet.start()
        assert await fleet.update(update(1)) == []
        await settle()
        assert [slot.serving for slot in fleet.slots] == [True] * 3 and fleet.num_restarts == 3
        assert [u.version for u in asked] == [1]  # once for all, or every copy would take its room
        assert [actor.updates for actor in actors[3:]] == [[1]] * 3

    asyncio.run(body())


def test_a_probe_that_disagrees_ends_the_run_without_another_engine(actors):
    async def body():
        fleet = make_fleet(actors)
        await fleet.start()
        actors[0].update = failing(UpdateFailed(0, 1, "probe", "ProbeDisagreement: by 0.3", "ProbeDisagreement"))
        with pytest.raises(RunFailed, match=r"by 0\.3; every other engine would fail .* `proxrl doctor`"):
            await fleet.update(update(1))
        await settle()
        assert len(actors) == 1 and fleet.num_restarts == 0

    asyncio.run(body())


def test_the_same_error_from_a_second_publication_ends_the_run(actors):
    def prepare(actor, nth):
        cause = f"WeightMismatch: no place for tensor {nth}"
        actor.update = failing(UpdateFailed(0, 1, "load", cause, "WeightMismatch"))

    async def renew(failed):
        return replace(failed, buckets=("again",))

    async def body():
        fleet = make_fleet(actors, max_restarts=3, prepare=prepare)
        fleet.renew = renew
        await fleet.start()
        assert await fleet.update(update(1)) == []
        await settle()
        with pytest.raises(RunFailed, match=r"no place for tensor 2 again, in a new engine"):
            fleet.pick()
        assert len(actors) == 2

    asyncio.run(body())
