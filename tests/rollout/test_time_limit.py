import asyncio
from types import SimpleNamespace

import pytest

from rollout import time_limit
from rollout.time_limit import Deadline


def test_a_wait_that_takes_too_long_says_what_it_waited_for():
    async def wait():
        await Deadline(0.02).wait(asyncio.sleep(10), "the engine to pause")

    with pytest.raises(TimeoutError, match=r"^waited 0\.02 s for the engine to pause$"):
        asyncio.run(wait())


def test_the_budget_is_shared_by_all_waits(monkeypatch):
    now = 0.0
    monkeypatch.setattr(time_limit, "time", SimpleNamespace(monotonic=lambda: now))

    async def two():
        nonlocal now
        deadline = Deadline(100)
        await deadline.wait(asyncio.sleep(0), "the first")
        now = 99.99
        await deadline.wait(asyncio.sleep(5), "the second")

    with pytest.raises(TimeoutError, match=r"^waited 100 s for the second$"):
        asyncio.run(two())


def test_a_wait_that_had_a_limit_of_its_own_says_what_that_waited_for():
    async def inner():
        await Deadline(0.01).wait(asyncio.sleep(10), "the weights to arrive")

    with pytest.raises(TimeoutError, match=r"^waited 0\.01 s for the weights to arrive$"):
        asyncio.run(Deadline(10).wait(inner(), "the update"))


def test_results_pass_through():
    async def value():
        return 5

    async def wait():
        return await Deadline(1).wait(value(), "a value")

    assert asyncio.run(wait()) == 5


def test_a_cancellation_that_comes_with_the_result_is_not_lost():
    async def wait():
        result = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(Deadline(5).wait(result, "a value"))
        await asyncio.sleep(0)
        result.set_result(1)
        waiting.cancel()
        await waiting

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(wait())
