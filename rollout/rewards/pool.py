"""Rewards beside the event loop: in their own processes, within a time limit, every failure contained and told."""

import asyncio
import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from configs.schema import RewardConfig
from exchange.types import FinishReason, Prompt, RewardResult
from rollout.rewards.function import resolve_reward_function
from rollout.rewards.process import RewardProcess
from rollout.rewards.wire import FailureReason, Outcome, request_frame

MAX_BATCH = 64  # calls handed to a process at a time
MAX_BATCH_BYTES = 1 << 16  # fits a socket's buffer, so that handing over never waits for a reward
BATCH_S = 0.05  # … as far as they take about this long, so that slow rewards spread over the processes
MAX_ATTEMPTS = 2  # a process may have died of something else than the call it held
JOIN_TIMEOUT_S = 5.0


@dataclass
class _Job:
    frame: bytes
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[RewardResult]"
    num_attempts: int = 0


class RewardPool:
    """`await pool.score(...)` from any event loop; `reward.num_workers` processes compute.

    A thread per process hands out the calls, so neither a reward nor its time limit depends on the event loop.

    Raises:
        ConfigError: from the constructor, when reward.function cannot be resolved.
    """

    def __init__(self, config: RewardConfig) -> None:
        self._function = config.function
        self._optional = resolve_reward_function(config.function).optional
        self._timeout_s = config.timeout_s
        self._waiting: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._processes: dict[int, RewardProcess] = {}  # by thread
        self._threads = [
            threading.Thread(target=self._drive, args=(i,), name=f"reward-{i}", daemon=True)
            for i in range(config.num_workers)
        ]
        for thread in self._threads:
            thread.start()

    async def score(
        self, prompt: Prompt, response_text: str, response_token_ids: Sequence[int], finish_reason: FinishReason
    ) -> RewardResult:
        """The reward of one completion; never raises for what the reward function does."""
        given = {"response_token_ids": tuple(response_token_ids), "finish_reason": finish_reason}
        loop = asyncio.get_running_loop()
        frame = request_frame(
            (prompt.text, response_text, prompt.answer, dict(prompt.row)),
            {name: given[name] for name in self._optional},
        )
        job = _Job(frame, loop, loop.create_future())
        with self._changed:
            if self._closed:
                raise RuntimeError("the reward pool is closed")
            self._waiting.append(job)
            self._changed.notify()
        return await job.future

    def close(self) -> None:
        """Kill the processes; who still waits for a reward gets a RuntimeError."""
        with self._changed:
            self._closed = True
            abandoned = list(self._waiting)
            self._waiting.clear()
            for process in self._processes.values():
                process.kill()
            self._changed.notify_all()
        self._abandon(abandoned)
        for thread in self._threads:
            thread.join(JOIN_TIMEOUT_S)

    def _drive(self, index: int) -> None:
        """One thread's life: keep its process up and hand it calls."""
        per_reward_s = BATCH_S
        while True:
            error = self._ensure_process(index)
            batch = self._take(max(1, min(MAX_BATCH, math.floor(BATCH_S / max(per_reward_s, 1e-9)))))
            if not batch:
                self._drop_process(index)
                return
            if error is not None:
                self._finish([(job, Outcome(reason="not_started", error=error)) for job in batch])
                continue
            start = time.monotonic()
            self._serve(index, batch)
            per_reward_s = 0.5 * per_reward_s + 0.5 * (time.monotonic() - start) / len(batch)

    def _ensure_process(self, index: int) -> str | None:
        """Start a process if there is none; returns the reason when that fails."""
        if index in self._processes or self._closed:
            return None
        try:
            process = RewardProcess(self._function)
        except (RuntimeError, OSError) as error:
            return str(error)
        with self._changed:
            self._processes[index] = process
        return None

    def _take(self, limit: int) -> list[_Job]:
        """Up to `limit` waiting calls, waiting for the first; none when the pool closes."""
        batch: list[_Job] = []
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            share = -(-len(self._waiting) // len(self._threads))
            room = MAX_BATCH_BYTES
            while len(batch) < min(limit, share) and (not batch or len(self._waiting[0].frame) <= room):
                batch.append(self._waiting.popleft())
                room -= len(batch[-1].frame)
        return batch

    def _serve(self, index: int, batch: list[_Job]) -> None:
        """Have the batch computed; when the process hangs or dies, the calls after the culprit wait again."""
        process = self._processes[index]
        open_jobs = deque(batch)
        reason: FailureReason
        try:
            process.send([job.frame for job in batch], self._timeout_s)
            while open_jobs:
                outcomes = process.receive(self._timeout_s)
                num_asked = len(open_jobs)
                self._finish([(open_jobs.popleft(), outcome) for outcome in outcomes[:num_asked]])
                if len(outcomes) > num_asked:
                    self._drop_process(index)  # it answers what nobody asked
            return
        except TimeoutError:
            reason = "timeout"
        except (EOFError, OSError):
            reason = "died"
        self._drop_process(index)
        culprit = open_jobs.popleft()
        if self._closed:
            self._abandon([culprit, *open_jobs])
            return
        with self._changed:
            self._waiting.extendleft(reversed(open_jobs))
            self._changed.notify_all()
        self._blame(culprit, reason)

    def _blame(self, job: _Job, reason: FailureReason) -> None:
        job.num_attempts += 1
        if reason == "timeout":
            error = f"the reward function took longer than reward.timeout_s={self._timeout_s:g}"
        elif job.num_attempts < MAX_ATTEMPTS:
            with self._changed:
                self._waiting.appendleft(job)
            return
        else:
            error = f"the reward process died {job.num_attempts} times on this completion"
        self._finish([(job, Outcome(reason=reason, error=error))])

    def _drop_process(self, index: int) -> None:
        with self._changed:
            process = self._processes.pop(index, None)
        if process is not None:
            process.close()

    def _finish(self, done: list[tuple[_Job, Outcome]]) -> None:
        """Hand outcomes to their event loops, one wake-up for all of a loop."""
        for loop, items in itertools.groupby(done, key=lambda item: item[0].loop):
            self._call(loop, _set_results, list(items))

    def _abandon(self, jobs: list[_Job]) -> None:
        for job in jobs:
            self._call(job.loop, _set_closed, job)

    @staticmethod
    def _call(loop: asyncio.AbstractEventLoop, function: Any, argument: Any) -> None:
        try:
            loop.call_soon_threadsafe(function, argument)
        except RuntimeError:  # the loop has been closed, so nobody waits there
            assert loop.is_closed()


def _set_results(done: list[tuple[_Job, Outcome]]) -> None:
    for job, outcome in done:
        if not job.future.done():
            job.future.set_result(RewardResult(outcome.reward, outcome.reason is not None, outcome.error))


def _set_closed(job: _Job) -> None:
    if not job.future.done():
        job.future.set_exception(RuntimeError("the reward pool was closed before this reward was computed"))
