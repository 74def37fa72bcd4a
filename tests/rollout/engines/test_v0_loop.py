"""The stepping thread: tokens carry the label at their step, updates fall between steps, failures end requests.

A scripted engine of one token a step stands in for vLLM's, which tests/integration runs for real.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from rollout.engines.v0_085.loop import V0Loop, version_spans
from rollout.engines.version_boundaries import Span


class ScriptedEngine:
    """Each step gives every request its next token; `gate` holds the steps until the test lets them go."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.requests: dict[str, tuple[int, list[int]]] = {}  # id → (length, tokens so far)
        self.weights, self.in_step, self.num_steps = "old", False, 0
        self.gate = threading.Semaphore(0)
        self.fail_at = fail_at
        self.model_executor = SimpleNamespace(collective_rpc=self._rpc, stop_remote_worker_execution_loop=lambda: None)

    def _rpc(self, method: str, args: tuple[Any, ...]) -> list[Any]:
        assert not self.in_step, "the weights changed inside a step"
        self.weights = args[0]
        return [method]

    def add_request(self, request_id: str, prompt: Any, params: int) -> None:
        self.requests[request_id] = (params, [])

    def abort_request(self, request_id: str) -> None:
        self.requests.pop(request_id, None)

    def has_unfinished_requests(self) -> bool:
        return bool(self.requests)

    def step(self) -> list[Any]:
        self.gate.acquire()
        self.in_step, weights, self.num_steps = True, self.weights, self.num_steps + 1
        if self.num_steps == self.fail_at:
            raise RuntimeError("out of blocks")
        outputs = [self._next(name) for name in list(self.requests)]
        assert self.weights == weights
        self.in_step = False
        return outputs

    def _next(self, name: str) -> Any:
        length, tokens = self.requests[name]
        token = 1 if self.weights == "new" else 0
        tokens.append(token)
        if len(tokens) == length:
            del self.requests[name]
        completion = SimpleNamespace(token_ids=[token], logprobs=[{}], finish_reason="length")
        return SimpleNamespace(
            request_id=name, outputs=[completion], finished=len(tokens) == length, prompt_logprobs=None
        )


@dataclass
class Stage:
    loop: V0Loop
    engine: ScriptedEngine

    def let_steps(self, n: int) -> None:
        self.engine.gate.release(n)


def play(story: Callable[[Stage], Awaitable[Any]], fail_at: int | None = None) -> Any:
    engine = ScriptedEngine(fail_at)
    loop = V0Loop(lambda: engine, first_version=4)
    loop.start()
    try:
        return asyncio.run(asyncio.wait_for(story(Stage(loop, engine)), 20))  # type: ignore[arg-type]
    finally:
        loop.shutdown()
        engine.gate.release(1000)
        loop.join(10)


def test_a_request_that_lives_through_an_update_knows_which_weights_sampled_each_token() -> None:
    async def story(stage: Stage) -> Any:
        request = asyncio.create_task(stage.loop.generate({}, 6, "r"))
        stage.let_steps(2)
        while stage.engine.num_steps < 2:
            await asyncio.sleep(0.01)
        stage.let_steps(1)  # the step that the pause waits for
        await stage.loop.pause_generation()
        done = stage.engine.num_steps
        stage.let_steps(10)
        await stage.loop.collective_rpc("load", ("new",))
        await stage.loop.update_weight_version("5")
        assert stage.engine.num_steps == done, "a step ran while paused"
        await stage.loop.resume_generation()
        return (await request).outputs[0]

    output = play(story)
    old = output.token_ids.count(0)
    assert 0 < old < 6 and output.token_ids == [0] * old + [1] * (6 - old)
    assert output.weight_versions == (Span("4", 0, old), Span("5", old, 6))


def test_requests_added_while_paused_start_under_the_new_label() -> None:
    async def story(stage: Stage) -> Any:
        await stage.loop.pause_generation()
        request = asyncio.create_task(stage.loop.generate({}, 3, "r"))
        stage.let_steps(10)
        await stage.loop.collective_rpc("load", ("new",))
        await stage.loop.update_weight_version("5")
        await stage.loop.resume_generation()
        return (await request).outputs[0]

    assert play(story).weight_versions == (Span("5", 0, 3),)


def test_an_engine_that_fails_ends_every_request_and_every_later_call() -> None:
    async def story(stage: Stage) -> None:
        request = asyncio.create_task(stage.loop.generate({}, 6, "r"))
        stage.let_steps(10)
        with pytest.raises(RuntimeError, match="out of blocks"):
            await request
        with pytest.raises(RuntimeError, match="out of blocks"):
            await stage.loop.pause_generation()

    play(story, fail_at=2)


def test_a_cancelled_request_leaves_the_engine() -> None:
    async def story(stage: Stage) -> None:
        request = asyncio.create_task(stage.loop.generate({}, 1000, "r"))
        stage.let_steps(1)
        while stage.engine.num_steps < 1:
            await asyncio.sleep(0.01)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        stage.let_steps(3)
        while stage.engine.requests:
            await asyncio.sleep(0.01)

    play(story)


def test_an_engine_that_cannot_be_built_says_why() -> None:
    def build() -> Any:
        raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model"):
        V0Loop(build, 0).start()


def test_equal_neighbours_make_one_span() -> None:
    assert version_spans([2, 2, 3, 5, 5]) == (Span("2", 0, 2), Span("3", 2, 3), Span("5", 3, 5))
    assert version_spans([]) == ()
