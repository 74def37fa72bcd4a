"""The adapter for vLLM 0.8.5's V0 engine, the reference of the migration study, behind `rollout.engines.engine.Engine`.

Our sampling words as vLLM 0.8.5's request parameters.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from exchange.types import Completion, Sampling
from rollout.engines.earlier import EarlierEngine
from rollout.engines.earlier_arguments import require_known, v0_085_arguments
from rollout.engines.v0_085.loop import V0Loop
from rollout.engines.v1_current.arguments import require_whole_prompts
from rollout.errors import EngineUnusable


def v0_sampling_params(sampling: Sampling, end_token_ids: Sequence[int], num_logprobs: int) -> Any:
    """Request parameters; each step returns the tokens it sampled."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k or -1,
        max_tokens=sampling.max_new_tokens,
        seed=sampling.seed,
        stop_token_ids=sorted({*end_token_ids, *sampling.stop_token_ids}),
        ignore_eos=True,
        logprobs=num_logprobs,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )


def v0_score_params() -> Any:
    """Parameters that return the prompt's own logprobs, at temperature 1 whatever training samples at."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=1.0,
        max_tokens=1,
        ignore_eos=True,
        prompt_logprobs=0,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )


CLOSE_TIMEOUT_S = 5.0


class VllmV0Engine(EarlierEngine):
    """As `VllmV1Engine`, over `LLMEngine.step()`: versions are stamped step by step."""

    _llm: V0Loop | None

    def _build(self) -> None:
        model_json, on_cpu = self._prepare_model()
        from vllm.engine.arg_utils import EngineArgs
        from vllm.engine.llm_engine import LLMEngine

        arguments = v0_085_arguments(self._config, on_cpu, model_json)
        require_known(arguments.args, EngineArgs, "vLLM 0.8.5")
        self.engine_args, self._float32_head = arguments.args, arguments.float32_head
        args = EngineArgs(**self.engine_args)

        def build() -> Any:
            engine = LLMEngine.from_engine_args(args)
            if on_cpu:
                require_whole_prompts(engine.vllm_config)
            return engine

        loop = V0Loop(build, self.version)
        loop.start()
        self._llm = loop

    async def generate(self, request_id: str, prompt_token_ids: Sequence[int], sampling: Sampling) -> Completion:
        from rollout.engines.sampling import num_logprobs, to_completion

        self._require_room(len(prompt_token_ids), sampling.max_new_tokens)
        asked = num_logprobs(sampling, self._vocab_size)
        params = v0_sampling_params(sampling, self._end_token_ids, asked)
        async with self._slots:
            output = await self._request(request_id, prompt_token_ids, params)
        return await self._once_verified(to_completion(output.outputs[0], sampling, self._vocab_size))

    async def score(self, token_ids: Sequence[int]) -> tuple[float, ...]:
        from rollout.engines.sampling import to_scores

        self._require_room(len(token_ids), 1)
        self._num_scored += 1
        output = await self._request(f"score-{self._num_scored}", token_ids, v0_score_params())
        return to_scores(output.prompt_logprobs, token_ids)

    async def _collect(self, request_id: str, prompt: Sequence[int], params: Any, priority: int) -> Any:
        assert self._llm is not None
        try:
            return await self._llm.generate({"prompt_token_ids": list(prompt)}, params, request_id)
        except Exception as error:
            self.fail(EngineUnusable(self._worker, f"its engine failed: {type(error).__name__}: {error}"))
            self._require_usable()
            raise

    async def close(self) -> None:
        loop, self._llm = self._llm, None
        if self._watching is not None:
            self._watching.cancel()
        self.fail(EngineUnusable(self._worker, "its engine was closed"))
        if loop is not None:
            loop.shutdown()
            await asyncio.to_thread(loop.join, CLOSE_TIMEOUT_S)
