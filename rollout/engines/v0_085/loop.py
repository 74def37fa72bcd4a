"""vLLM 0.8.5's V0 engine driven step by step in a thread of its own.

Everything that touches the engine happens in that thread between two steps, so an update falls on an engine boundary
by construction: the loop blocks there, the weights are loaded, and it continues with its cache as it is.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from exchange.types import WeightUpdate
from rollout.engines.finished_output import FinishedOutput
from rollout.engines.received_weights import plain_update
from rollout.engines.version_boundaries import Span

Command = Callable[[Any], Any]  # gets vLLM's engine


@dataclass
class _Running:
    """One request while its tokens come in, each with the label of the weights at its step."""

    done: "Future[FinishedRequest]"
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class FinishedRequest:
    """As vLLM's `RequestOutput`: what our adapter reads of it."""

    outputs: list[FinishedOutput]
    prompt_logprobs: Any
    finished: bool = True


class V0Loop:
    """`LLMEngine.step()` in a thread, with the methods of newer engines that an update calls.

    Args:
        build: makes vLLM's engine; runs in the thread.
        first_version: label of the weights it starts with.
    """

    errored = False  # the engine lives in this process and cannot die alone; an error of its own is raised by each call

    def __init__(self, build: Callable[[], Any], first_version: int) -> None:
        self._build = build
        self._version = first_version
        self._commands: queue.SimpleQueue[tuple[Command, Future[Any]]] = queue.SimpleQueue()
        self._running: dict[str, _Running] = {}
        self._paused = False
        self._closed = False
        self._error: BaseException | None = None
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="vllm-v0-steps", daemon=True)

    def start(self) -> None:
        """Build the engine; returns when it is ready, raises what stopped it."""
        self._thread.start()
        self._ready.result()

    async def generate(self, prompt: dict[str, Any], params: Any, request_id: str) -> FinishedRequest:
        """The finished request; a caller that is cancelled takes its request out of the engine."""
        running = _Running(Future())

        def add(engine: Any) -> None:
            engine.add_request(request_id, prompt, params)
            self._running[request_id] = running

        await self._call(add)
        try:
            return await asyncio.wrap_future(running.done)
        finally:
            if not running.done.done() or running.done.cancelled():
                self._submit(lambda engine: self._abort(engine, request_id))

    async def pause_generation(self, mode: str = "keep", clear_cache: bool = False) -> None:
        """Block at the next boundary: the step that runs is finished, none is begun; requests and cache stay."""
        await self._call(lambda engine: self._pause(engine))

    async def resume_generation(self) -> None:
        await self._call(lambda engine: setattr(self, "_paused", False))

    async def update_weight_version(self, label: str) -> None:
        """Tokens of later steps carry this label."""
        await self._call(lambda engine: setattr(self, "_version", int(label)))

    async def collective_rpc(self, method: str, args: tuple[Any, ...] = ()) -> list[Any]:
        """Call a method of every worker, between two steps."""
        result: list[Any] = await self._call(lambda engine: engine.model_executor.collective_rpc(method, args=args))
        return result

    async def load(self, update: WeightUpdate) -> None:
        """Let every worker load the published weights, between two steps."""
        await self.collective_rpc("load_published", plain_update(update))

    def shutdown(self) -> None:
        """End the thread after the step that runs."""
        self._submit(lambda engine: setattr(self, "_closed", True))

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end."""
        self._thread.join(timeout_s)

    async def _call(self, command: Command) -> Any:
        return await asyncio.wrap_future(self._submit(command))

    def _submit(self, command: Command) -> "Future[Any]":
        done: Future[Any] = Future()
        if self._error is not None:
            done.set_exception(self._error)
        else:
            self._commands.put((command, done))
        return done

    def _run(self) -> None:
        try:
            engine = self._build()
        except BaseException as error:
            self._ready.set_exception(error)
            return
        self._ready.set_result(None)
        try:
            while not self._closed:
                idle = self._paused or not engine.has_unfinished_requests()
                self._run_commands(engine, wait=idle)
                if not (self._paused or self._closed) and engine.has_unfinished_requests():
                    for output in engine.step():
                        self._take(output)
        except BaseException as error:
            self._end_all(error)

    def _run_commands(self, engine: Any, wait: bool) -> None:
        while wait or not self._commands.empty():
            command, done = self._commands.get()
            wait = False
            if not done.set_running_or_notify_cancel():
                continue
            try:
                done.set_result(command(engine))
            except BaseException as error:
                done.set_exception(error)

    def _pause(self, engine: Any) -> None:
        # With several ranks the others wait inside a step loop, which takes no calls.
        engine.model_executor.stop_remote_worker_execution_loop()
        self._paused = True

    def _take(self, output: Any) -> None:
        """Add the tokens of one step to their request; each was sampled by the weights now loaded."""
        running = self._running.get(output.request_id)
        if running is None:
            return
        new = output.outputs[0]
        running.token_ids += new.token_ids
        running.logprobs += new.logprobs or ()
        running.versions += [self._version] * len(new.token_ids)
        if output.finished:
            del self._running[output.request_id]
            spans = version_spans(running.versions)
            finished = FinishedOutput(running.token_ids, running.logprobs, new.finish_reason, spans)
            if running.done.set_running_or_notify_cancel():
                running.done.set_result(FinishedRequest([finished], output.prompt_logprobs))

    def _abort(self, engine: Any, request_id: str) -> None:
        self._running.pop(request_id, None)
        engine.abort_request(request_id)

    def _end_all(self, error: BaseException) -> None:
        self._error = error
        for running in self._running.values():
            if running.done.set_running_or_notify_cancel():
                running.done.set_exception(error)
        self._running.clear()
        while not self._commands.empty():
            _, done = self._commands.get()
            if done.set_running_or_notify_cancel():
                done.set_exception(error)


def version_spans(versions: list[int]) -> tuple[Span, ...]:
    """Runs of equal versions → spans."""
    spans: list[Span] = []
    for index, version in enumerate(versions):
        if spans and spans[-1].version == str(version):
            spans[-1] = Span(spans[-1].version, spans[-1].start, index + 1)
        else:
            spans.append(Span(str(version), index, index + 1))
    return tuple(spans)
