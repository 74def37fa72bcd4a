"""The adapter for vLLM 0.18.1's V1 engine, behind `rollout.engines.engine.Engine`.

Weight updates of vLLM 0.18.1 behind the calls of `rollout.weights.in_flight_update`; versions are counted at the
boundary.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from configs.schema import Config
from exchange.types import Completion, Sampling, WeightUpdate
from rollout.engines.earlier import EarlierEngine
from rollout.engines.earlier_arguments import require_known, v1_0181_arguments
from rollout.engines.finished_output import FinishedOutput
from rollout.engines.received_weights import plain_update
from rollout.engines.v1_current.arguments import require_whole_prompts
from rollout.engines.version_boundaries import Census, Span, VersionBoundaries


class PausableV1:
    """`AsyncLLM` of 0.18.1 as an update sees it; everything else is passed through.

    `pause_mode` is vLLM's (keep, wait, abort), or none: then the weights change between two steps without a pause.
    """

    def __init__(self, llm: Any, boundaries: VersionBoundaries, pause_mode: str, clear_cache: bool) -> None:
        self._llm, self._boundaries = llm, boundaries
        self._pause_mode, self._clear_cache = pause_mode, clear_cache
        self._census = Census({}, frozenset())

    async def pause_generation(self, mode: str, clear_cache: bool) -> None:
        """Pause as the run is configured; what the caller asks for is what the configuration is by default."""
        self._boundaries.begin_change()
        if self._pause_mode != "none":
            await self._llm.pause_generation(mode=self._pause_mode, clear_cache=self._clear_cache)

    async def load(self, update: WeightUpdate) -> None:
        """Load into every rank, and keep how many tokens each request had sampled by then."""
        replies = await self._llm.collective_rpc("load_published", args=plain_update(update))
        counts = replies[0]  # every rank runs the same requests
        by_our_name = {_our_name(name): n for name, n in counts["num_tokens"].items()}
        self._census = Census(by_our_name, frozenset(_our_name(name) for name in counts["ended"]))

    async def update_weight_version(self, label: str) -> None:
        self._boundaries.change(int(label), self._census)

    async def resume_generation(self) -> None:
        self._boundaries.end_change()
        if self._pause_mode != "none":
            await self._llm.resume_generation()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._llm, name)


def _our_name(internal: str) -> str:
    """vLLM 0.18.1 appends a dash and a random suffix to each request id."""
    return internal.rpartition("-")[0]


ABORTED = "abort"


class VllmV1Engine0181(EarlierEngine):
    """As `VllmV1Engine`; this version does not label its weights, so versions are counted at each update."""

    def __init__(self, config: Config, worker: int, first_version: int = 0) -> None:
        super().__init__(config, worker, first_version)
        self._boundaries = VersionBoundaries(first_version)

    def _build(self) -> None:
        model_json, on_cpu = self._prepare_model()
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = v1_0181_arguments(self._config, on_cpu, model_json)
        require_known(arguments.args, AsyncEngineArgs, "vLLM 0.18.1")
        self.engine_args, self._float32_head = arguments.args, arguments.float32_head
        llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**self.engine_args))
        sync = self._config.rollout.weight_sync
        self._llm = PausableV1(llm, self._boundaries, sync.pause_mode, sync.clear_cache)
        if on_cpu:
            require_whole_prompts(llm.vllm_config)

    async def generate(self, request_id: str, prompt_token_ids: Sequence[int], sampling: Sampling) -> Completion:
        from rollout.engines.sampling import to_completion

        self._require_room(len(prompt_token_ids), sampling.max_new_tokens)
        async with self._slots:
            output = await self._until_finished(request_id, list(prompt_token_ids), sampling)
        return await self._once_verified(to_completion(output, sampling, self._vocab_size))

    async def _until_finished(self, request_id: str, prompt: list[int], sampling: Sampling) -> FinishedOutput:
        """Sample to the end; what an update aborted resumes from the tokens it had, as a request of its own."""
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
        from rollout.engines.sampling import sampling_params

        params = sampling_params(sampling, self._end_token_ids, self._vocab_size)
        self._boundaries.open(request_id)
        try:
            output = (await self._request(request_id, prompt, params)).outputs[0]
            spans = await self._boundaries.close(request_id, len(output.token_ids))
        finally:
            self._boundaries.forget(request_id)
        self._require_usable()
        return FinishedOutput(list(output.token_ids), list(output.logprobs or ()), output.finish_reason, spans)


def _rest(sampling: Sampling, num_done: int, segment: int) -> Sampling:
    """What is left of a completion of which `num_done` tokens were sampled in earlier segments."""
    # The same seed again would repeat the random numbers of the first segment.
    seed = None if sampling.seed is None else sampling.seed + segment
    return replace(sampling, max_new_tokens=sampling.max_new_tokens - num_done, seed=seed)
