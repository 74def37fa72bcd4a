"""The adapter for vLLM 0.18.1's V1 engine, behind `rollout.engine.Engine`."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from configs.schema import Config
from rollout.cpu_process import apply_cpu_environment
from rollout.engines.arguments import require_known, v1_0181_arguments
from rollout.engines.cpu_cache_size import set_cache_size
from rollout.engines.finished_output import FinishedOutput
from rollout.engines.language_model import language_model_json
from rollout.engines.v1_0181_updates import InFlightUpdateV1, PausableV1
from rollout.engines.version_boundaries import Span, VersionBoundaries
from rollout.time_limit import Deadline
from rollout.tokenizer import eos_token_ids, load_tokenizer
from rollout.types import Completion, Sampling, UpdateReport, WeightUpdate
from rollout.vllm_v1 import VllmV1Engine

ABORTED = "abort"


class VllmV1Engine0181(VllmV1Engine):
    """As `VllmV1Engine`; this version does not label its weights, so versions are counted at each update."""

    def __init__(self, config: Config, worker: int, first_version: int = 0) -> None:
        super().__init__(config, worker, first_version)
        self._boundaries = VersionBoundaries(first_version)
        self._float32_head = False

    async def start(self) -> None:
        limit = Deadline(self._config.rollout.startup_timeout_s)
        await limit.wait(asyncio.to_thread(self._build), f"the engine of rollout worker {self._worker} to start")
        self._slots = asyncio.Semaphore(max(1, self.engine_args["max_num_seqs"] - 1))
        prepared = self._llm.collective_rpc("prepare_updates", args=(self._float32_head,))
        await limit.wait(prepared, "the weight receiver to start")

    def _build(self) -> None:
        from vllm.platforms import current_platform

        if current_platform.is_cpu():
            apply_cpu_environment()
            set_cache_size(self._config)
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        model = self._config.model
        self._end_token_ids = eos_token_ids(load_tokenizer(model.path, model.trust_remote_code), model.path)
        model_json = language_model_json(model.path)
        self._vocab_size = model_json["vocab_size"]
        arguments = v1_0181_arguments(self._config, current_platform.is_cpu(), model_json)
        require_known(arguments.args, AsyncEngineArgs, "vLLM 0.18.1")
        self.engine_args, self._float32_head = arguments.args, arguments.float32_head
        llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**self.engine_args))
        sync = self._config.rollout.weight_sync
        self._llm = PausableV1(llm, self._boundaries, sync.pause_mode, sync.clear_cache)

    async def generate(self, request_id: str, prompt_token_ids: Sequence[int], sampling: Sampling) -> Completion:
        from rollout.vllm_sampling import to_completion

        self._require_room(len(prompt_token_ids), sampling.max_new_tokens)
        async with self._slots:
            output = await self._until_finished(request_id, list(prompt_token_ids), sampling)
        completion = to_completion(output, sampling, self._vocab_size)
        if completion.versions and completion.versions[-1] > self.version:
            await self._settled.wait()
            self._require_usable()
        return completion

    async def _until_finished(self, request_id: str, prompt: list[int], sampling: Sampling) -> FinishedOutput:
        """Sample to the end; what an update aborted goes on from the tokens it had, as a request of its own."""
        token_ids: list[int] = []
        logprobs: list[Any] = []
        spans: list[Span] = []
        reason, segment = ABORTED, 0
        while reason == ABORTED:
            rest = _rest(sampling, len(token_ids), segment)
            part = await self._segment(f"{request_id}.{segment}", prompt + token_ids, rest)
            reason, segment = part.finish_reason, segment + 1
            spans += [Span(s.version, s.start + len(token_ids), s.end + len(token_ids)) for s in part.weight_versions]
            token_ids += part.token_ids
            logprobs += part.logprobs
            if reason == ABORTED and len(token_ids) >= sampling.max_new_tokens:
                reason = "length"
        return FinishedOutput(token_ids, logprobs, reason, tuple(spans))

    async def _segment(self, request_id: str, prompt: list[int], sampling: Sampling) -> FinishedOutput:
        from rollout.vllm_sampling import sampling_params

        params = sampling_params(sampling, self._end_token_ids, self._vocab_size)
        self._boundaries.open(request_id)
        try:
            output = (await self._request(request_id, prompt, params)).outputs[0]
            spans = await self._boundaries.close(request_id, len(output.token_ids))
        finally:
            self._boundaries.forget(request_id)
        self._require_usable()
        return FinishedOutput(list(output.token_ids), list(output.logprobs or ()), output.finish_reason, spans)

    async def update(self, update: WeightUpdate) -> UpdateReport:
        async with self._updating:
            self._require_usable()
            if update.version <= self.version:
                raise ValueError(f"update to version {update.version}, but the engine is at version {self.version}")
            return await InFlightUpdateV1(self, self._llm, self._config, self._worker, update).run()


def _rest(sampling: Sampling, num_done: int, segment: int) -> Sampling:
    """What is left of a completion of which `num_done` tokens were sampled in earlier segments."""
    # The same seed again would repeat the random numbers of the first segment.
    seed = None if sampling.seed is None else sampling.seed + segment
    return replace(sampling, max_new_tokens=sampling.max_new_tokens - num_done, seed=seed)
