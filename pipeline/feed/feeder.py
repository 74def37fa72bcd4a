"""Keeps the rollout workers busy within the staleness bound and hands batches of groups to the trainer.

How often rewards fail: above a limit the run stops, for a 0 that nobody meant teaches the wrong thing.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from configs.schema import Config, RewardConfig
from exchange.types import Group, Prompt, Sampling, Trajectory
from pipeline.batch.advantages import has_signal
from pipeline.errors import RunFailed
from pipeline.feed.staleness import Admission, GroupBuffer
from pipeline.records.ledger import Event, Ledger
from pipeline.records.run_state import RunState
from pipeline.workers.fleet import Fleet
from pipeline.workers.slot import MAX_TIMEOUTS, RequestTimedOut, Slot, WorkerLost

WINDOW = 200  # rewards


class RewardFailures:
    """Counts over the last `WINDOW` rewards; `recent` travels with a checkpoint."""

    def __init__(self, config: RewardConfig) -> None:
        self._limit = config.max_failure_fraction
        self.recent: deque[bool] = deque(maxlen=WINDOW)

    def count(self, trajectories: Sequence[Trajectory]) -> int:
        """Take the rewards of a group; returns how many of them failed.

        Raises:
            RunFailed: more failed than the limit allows among the last `WINDOW`, or already among fewer.
        """
        failed = [t for t in trajectories if t.reward_failed]
        self.recent.extend(t.reward_failed for t in trajectories)
        if failed and sum(self.recent) > self._limit * WINDOW:
            raise RunFailed(
                f"{sum(self.recent)} of the last {len(self.recent)} rewards failed (limit reward.max_failure_fraction="
                f"{self._limit:g} of {WINDOW}), the last with {failed[-1].reward_error}; "
                "fix reward.function or rollout.episode, see logs/rollout-*.log"
            )
        return len(failed)


MIN_FLAT_GROUPS = 500
"""So many groups in a row without two different rewards (20 batches if that is more) end a run that resamples them."""

BEYOND = "beyond_total_steps"


class Cursor(Protocol):
    """Where the next prompt comes from (`rollout.data.prompt_cursor.PromptCursor`)."""

    def next(self) -> tuple[int, Prompt]: ...

    def put_back(self, epoch: int, prompt: Prompt) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def train_sampling(config: Config) -> Sampling:
    """The sampling of training completions."""
    s = config.rollout.sampling
    return Sampling(s.temperature, s.max_new_tokens, s.top_p, s.top_k, tuple(s.stop_token_ids))


class Rollouts:
    """Owner of the rule that a prompt is either in flight, in the buffer, consumed, or put back."""

    def __init__(self, config: Config, fleet: Fleet, cursor: Cursor, ledger: Ledger, admission: Admission) -> None:
        self._fleet, self._cursor, self._ledger = fleet, cursor, ledger
        self.admission = admission
        self.buffer = GroupBuffer(config.rollout.max_head_offpolicyness)
        self.counts: Counter[str] = Counter()  # since the start of the run
        self.num_generated_tokens = 0
        self.next_group = 0
        self._sampling = train_sampling(config)
        self.reward_failures = RewardFailures(config.reward)
        self._n = config.rollout.sampling.n_samples
        self._advantage = config.actor.advantage
        self._resample = config.actor.advantage.zero_variance == "resample"
        self._max_flat = max(MIN_FLAT_GROUPS, 20 * admission.batch_size)
        self._num_flat = 0  # groups in a row without two different rewards
        self._timeouts: Counter[str] = Counter()  # by prompt id
        self._prompts: dict[str, tuple[int, Prompt]] = {}  # group id -> its prompt
        self._interrupted: deque[str] = deque()  # groups in flight when the run ended, to be asked again first
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()  # something may be issued
        self._arrived = asyncio.Event()  # something may be consumed
        self._error: BaseException | None = None

    async def run(self) -> None:
        """Issue groups for ever; ends by cancellation."""
        while True:
            self._changed.clear()
            while self.admission.free > 0 and (slot := self._fleet.pick()) is not None:
                self._issue(slot)
            # A replaced worker starts serving without telling us, so look again after a moment.
            # `asyncio.wait_for` would lose a cancellation that comes together with a change (Python 3.11).
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._changed.wait()

    def _issue(self, slot: Slot) -> None:
        group_id = self._interrupted_group() if self._interrupted else self._next_group()
        epoch, prompt = self._prompts[group_id]
        self.admission.start()
        self._record("issued", group_id)
        answer = self._fleet.generate(slot, group_id, prompt, epoch, self._sampling, self._n)
        task = asyncio.ensure_future(self._receive(group_id, prompt, answer))
        self._tasks.add(task)
        task.add_done_callback(self._finish_task)

    def _next_group(self) -> str:
        group_id = f"g{self.next_group:08d}"
        self.next_group += 1
        self._prompts[group_id] = self._cursor.next()
        return group_id

    def _interrupted_group(self) -> str:
        group_id = self._interrupted.popleft()
        self._record("requeued", group_id, "resumed")
        return group_id

    def _finish_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)
        self._changed.set()
        self._arrived.set()

    async def _receive(self, group_id: str, prompt: Prompt, answer: Awaitable[Group]) -> None:
        try:
            group = await answer
        except WorkerLost as error:
            self.admission.discard()
            self._timeouts[prompt.prompt_id] += isinstance(error, RequestTimedOut)
            if self._timeouts[prompt.prompt_id] < MAX_TIMEOUTS:
                self._put_back(group_id, "worker_lost")
            else:
                self._forget(group_id, "dropped", "timed_out")
            return
        self.num_generated_tokens += sum(len(t.response_token_ids) for t in group.trajectories)
        self.counts["rewards_failed"] += self.reward_failures.count(group.trajectories)
        # An episode that failed has no tokens to learn from.
        group = replace(group, trajectories=tuple(t for t in group.trajectories if t.response_token_ids))
        reason = self._reason_to_drop(group)
        if reason is not None:
            self.admission.discard()
            self._forget(group_id, "dropped", reason)
            return
        self._record("finished", group_id)
        self.buffer.put(group)
        self.admission.accept()

    def _reason_to_drop(self, group: Group) -> str | None:
        """Why a group cannot be trained on, None where it can."""
        if not group.trajectories:
            return "episode_failed"
        if not self._resample or has_signal(group, self._advantage, self._sampling.max_new_tokens):
            self._num_flat = 0
            return None
        self._num_flat += 1
        if self._num_flat >= self._max_flat:
            raise RunFailed(
                f"no group of {self._num_flat} in a row had two different rewards, so actor.advantage.zero_variance="
                "resample finds nothing to train on; the prompts are all too easy or all too hard, or the reward is "
                "constant: choose others, or set it to filter"
            )
        return "zero_variance"

    def fail(self, error: BaseException) -> None:
        """End the wait for a batch, now and from now on: something that sampling depends on has failed."""
        self._error = self._error or error  # the first explains the others
        self._arrived.set()

    async def take(self, n: int, version: int) -> list[Group]:
        """Wait for n groups young enough for `version` and remove them from the buffer."""
        while True:
            self._arrived.clear()
            self._drop_stale(version)
            if self._error is not None:
                raise self._error
            if len(self.buffer) >= n:
                groups = self.buffer.take(n)
                for g in groups:
                    self._forget(g.group_id, "consumed", None)
                return groups
            self._changed.set()
            await self._arrived.wait()

    def _drop_stale(self, version: int) -> None:
        for group in self.buffer.drop_stale(version):
            self.admission.drop()
            self.counts["dropped_stale"] += 1
            self._put_back(group.group_id, "stale")

    def set_version(self, version: int) -> None:
        """Every worker holds `version` now: more groups may be started."""
        self.admission.version = version
        self._changed.set()

    def _put_back(self, group_id: str, reason: str) -> None:
        epoch, prompt = self._prompts[group_id]
        self._cursor.put_back(epoch, prompt)
        self._forget(group_id, "requeued", reason)

    def _forget(self, group_id: str, event: Event, reason: str | None) -> None:
        self._record(event, group_id, reason)
        del self._prompts[group_id]

    def _record(self, event: Event, group_id: str, reason: str | None = None) -> None:
        epoch, prompt = self._prompts[group_id]
        self.counts[event] += 1
        self._ledger.record(event, group_id, prompt.prompt_id, epoch, self.admission.version, reason)

    def cursor_state(self) -> dict[str, Any]:
        """The cursor's own state; prompts in flight are in `in_flight`."""
        return self._cursor.state_dict()

    def in_flight(self) -> list[tuple[str, int, str]]:
        """(group id, epoch, prompt id) of the groups that are requested and not answered."""
        waiting = {g.group_id for g in self.buffer.groups}
        asked = sorted(self._prompts.items())
        return [(gid, epoch, p.prompt_id) for gid, (epoch, p) in asked if gid not in waiting]

    def restore(self, state: RunState, prompts: Mapping[str, Prompt]) -> None:
        """Resume from a checkpoint: buffered groups wait again, prompts in flight are requeued.

        They keep their group ids, and with them the seeds of their requests and their place in the batch, so
        that a synchronous run goes on exactly as it would have without the interruption. Where `train.total_steps`
        was lowered, those that it leaves no step for are put back.
        """
        self._cursor.load_state_dict(state.cursor)
        self.next_group = state.next_group
        self.counts.update(state.counts)
        self.reward_failures.recent.extend(state.recent_reward_failures)
        for group in state.buffered:
            self._prompts[group.group_id] = (group.epoch, prompts[group.prompt_id])
            if self.admission.left <= 0:
                self._put_back(group.group_id, BEYOND)
                continue
            self.buffer.put(group)
            self.admission.accepted += 1
        for group_id, epoch, prompt_id in state.in_flight:
            self._prompts[group_id] = (epoch, prompts[prompt_id])
            if self.admission.left <= len(self._interrupted):
                self._put_back(group_id, BEYOND)
                continue
            self._interrupted.append(group_id)

    async def close(self) -> None:
        """Stop waiting for groups in flight; their prompts stay unanswered."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
