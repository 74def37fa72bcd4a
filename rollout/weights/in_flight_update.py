"""One weight update of a running engine: the order of `rollout.engines.engine.Engine`, phase by phase."""

import time
from contextlib import suppress
from typing import Any

from configs.schema import Config
from exchange.types import UpdateReport, WeightUpdate
from rollout.errors import EngineUnusable, UpdateFailed
from rollout.time_limit import Deadline
from rollout.weights.probe import ProbeDisagreement, ProbeResult, compare_probe, probe_limit
from rollout.weights.transfer import join_info, update_info

RESUME_AFTER_FAILURE_S = 5.0


class InFlightUpdate:
    """Runs once. `engine` is the adapter (requests, verified version), `llm` vLLM's engine."""

    def __init__(self, engine: Any, llm: Any, config: Config, worker: int, update: WeightUpdate) -> None:
        self._engine, self._llm, self._config = engine, llm, config
        self._worker, self._update = worker, update
        self._deadline = Deadline(config.rollout.weight_sync.timeout_s)
        self._phase = "pause"
        self._started = time.monotonic()
        self._seconds: dict[str, float] = {}

    async def run(self) -> UpdateReport:
        """See `Engine.update`."""
        try:
            num_checked = await self._swap()
            result = await self._probe()
        except BaseException as cause:
            failure = self._failure(cause)
            self._engine.fail(failure)
            if not isinstance(cause, Exception):
                raise  # cancelled from outside, half-way: unusable all the same
            raise failure from cause
        self._engine.verified(self._update.version)
        return self._report(num_checked, result)

    async def _swap(self) -> int:
        """pause → load → check → label, and resume whatever happens. Returns how many tensors were checked."""
        version = self._update.version
        failed = True
        try:
            await self._join()
            self._enter("pause")
            await self._wait(self._llm.pause_generation(mode="keep", clear_cache=False), "the engine to pause")
            self._enter("load")
            await self._load()
            self._enter("verify")
            checked = await self._wait(
                self._llm.collective_rpc("check_weights", args=(version,)), f"the check of version {version}"
            )
            self._enter("label")
            self._engine.begin_unverified()
            await self._wait(self._llm.update_weight_version(str(version)), f"the label {version}")
            failed = False
        except BaseException as cause:
            # Before the resume below: what half-loaded weights sample must reach nobody.
            self._engine.fail(self._failure(cause))
            raise
        finally:
            await self._resume(failed)
        return min(checked)

    def _failure(self, cause: BaseException) -> UpdateFailed:
        words, kind = _in_words(cause), type(cause).__name__
        return UpdateFailed(self._worker, self._update.version, self._phase, words, kind)

    async def _resume(self, failed: bool) -> None:
        if failed:
            # A hung or dead engine does not resume either; the first failure is the one to report.
            with suppress(Exception):
                resumed = self._engine.while_alive(self._llm.resume_generation())
                await Deadline(RESUME_AFTER_FAILURE_S).wait(resumed, "the engine to resume")
            return
        self._enter("resume")
        await self._wait(self._llm.resume_generation(), "the engine to resume")

    async def _join(self) -> None:
        """Under nccl, enter the group that this update comes through, unless it is the one of the update before."""
        place = self._update.transfer
        if place is None or place == self._engine.transfer:
            return
        from vllm.distributed.weight_transfer.base import WeightTransferInitRequest

        self._enter("join")
        request = WeightTransferInitRequest(init_info=join_info(place))
        joined = self._llm.init_weight_transfer_engine(request)
        await self._wait(joined, f"the transfer group of {place.world_size} at {place.address}:{place.port}")
        self._engine.transfer = place

    async def _load(self) -> None:
        from vllm.distributed.weight_transfer.base import WeightTransferUpdateRequest

        version = self._update.version
        info = update_info(self._update)
        await self._wait(self._llm.start_weight_update(), "the receiver to be ready")
        await self._wait(
            self._llm.update_weights(WeightTransferUpdateRequest(update_info=info)), f"the weights of version {version}"
        )
        await self._wait(self._llm.finish_weight_update(), f"the end of the transfer of version {version}")

    async def _probe(self) -> ProbeResult:
        self._enter("probe")
        scores = await self._wait(self._engine.score(self._update.probe_token_ids), "the engine's score of the probe")
        result = compare_probe(scores, self._update.probe_logprobs)
        limit = probe_limit(self._config.rollout.weight_sync.probe_limit, self._config.model.dtype)
        if not result.mean_abs_diff <= limit:
            raise ProbeDisagreement(
                f"engine and trainer disagree by {result.mean_abs_diff:.3g} on average (at most "
                f"{result.max_abs_diff:.3g}) on the probe, limit {limit:g}"
            )
        self._enter("done")
        return result

    async def _wait(self, awaitable: Any, what: str) -> Any:
        return await self._deadline.wait(self._engine.while_alive(awaitable), what)

    def _enter(self, phase: str) -> None:
        now = time.monotonic()
        self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + now - self._started
        self._phase, self._started = phase, now

    def _report(self, num_checked: int, probe: ProbeResult) -> UpdateReport:
        seconds = self._seconds
        return UpdateReport(
            worker=self._worker,
            version=self._update.version,
            pause_s=seconds["pause"],
            load_s=seconds["load"],
            verify_s=seconds["verify"],
            resume_s=seconds["label"] + seconds["resume"],
            num_tensors_checked=num_checked,
            probe_mean_abs_diff=probe.mean_abs_diff,
            probe_max_abs_diff=probe.max_abs_diff,
        )


def _in_words(cause: BaseException) -> str:
    if isinstance(cause, EngineUnusable):
        return cause.reason
    text = str(cause).strip()
    return f"{type(cause).__name__}: {text}" if text else type(cause).__name__
