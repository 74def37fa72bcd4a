"""A fleet of stand-in actors whose answers the test decides."""

import asyncio
import concurrent.futures

import pytest
import ray

from exchange.types import Sampling, UpdateReport, WeightUpdate
from pipeline.workers.fleet import Fleet
from pipeline.workers.slot import FleetLimits

SAMPLING = Sampling(temperature=1.0, max_new_tokens=4)


class Ref:
    def __init__(self, future):
        self._future = future

    def future(self):
        return self._future


class Method:
    def __init__(self, answer):
        self._answer = answer

    def remote(self, *args):
        future = concurrent.futures.Future()
        try:
            value = self._answer(*args)
        except Exception as error:
            future.set_exception(error)
            return Ref(future)
        if isinstance(value, concurrent.futures.Future):
            return Ref(value)
        future.set_result(value)
        return Ref(future)


class StandInActor:
    """`updates` records the versions loaded; `fail_update` and `next_group` decide its answers."""

    def __init__(self, index):
        self.index, self.updates, self.killed = index, [], False
        self.fail_update, self.next_group, self.fail_start = False, None, False
        self.start = Method(self._start)
        self.generate_group = Method(lambda *a: self.next_group)
        self.update = Method(self._update)
        self.close = Method(lambda: None)

    def _start(self):
        if self.fail_start:
            raise ray.exceptions.RaySystemError("no memory")
        return {"worker": self.index}

    def _update(self, update):
        if self.fail_update:
            raise ray.exceptions.RaySystemError("probe disagrees")
        self.updates.append(update.version)
        return UpdateReport(self.index, update.version, 0, 0, 0, 0, 1, 0, 0)


@pytest.fixture(name="actors")
def made_actors(monkeypatch):
    made: list[StandInActor] = []
    monkeypatch.setattr(ray, "kill", lambda actor: setattr(actor, "killed", True))
    return made


def make_fleet(
    actors, num_workers=1, max_restarts=2, prepare=lambda actor, nth: None, request_s=5.0, on_event=lambda text: None
):
    def spawn(index):
        actor = StandInActor(index)
        actors.append(actor)
        prepare(actor, len(actors))
        return actor

    return Fleet(spawn, num_workers, FleetLimits(5.0, request_s, 5.0, max_restarts), on_event)


def update(version):
    return WeightUpdate(version, (), (), (1, 2), (-1.0,))


def failing(update_failed):
    """An update that raises as a worker's does, in Ray's error around it."""

    def raise_it(_):
        error = ray.exceptions.RayTaskError("update", "traceback", update_failed)
        raise error.as_instanceof_cause()

    return Method(raise_it)


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)
