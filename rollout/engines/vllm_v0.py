"""The adapter for vLLM 0.8.5's V0 engine, the reference of the migration study, behind `rollout.engine.Engine`."""

import asyncio
from collections.abc import Sequence
from typing import Any

from rollout.engines.arguments import require_known, v0_085_arguments
from rollout.engines.earlier import EarlierEngine
from rollout.engines.v0_loop import V0Loop
from rollout.engines.v0_sampling import v0_sampling_params, v0_score_params
from rollout.errors import EngineUnusable
from rollout.types import Completion, Sampling
from rollout.vllm_args import require_whole_prompts

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
        from rollout.vllm_sampling import num_logprobs, to_completion

        self._require_room(len(prompt_token_ids), sampling.max_new_tokens)
        asked = num_logprobs(sampling, self._vocab_size)
        params = v0_sampling_params(sampling, self._end_token_ids, asked)
        async with self._slots:
            output = await self._request(request_id, prompt_token_ids, params)
        return await self._once_verified(to_completion(output.outputs[0], sampling, self._vocab_size))

    async def score(self, token_ids: Sequence[int]) -> tuple[float, ...]:
        from rollout.vllm_sampling import to_scores

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
        self.fail(EngineUnusable(self._worker, "its engine was closed"))
        if loop is not None:
            loop.shutdown()
            await asyncio.to_thread(loop.join, CLOSE_TIMEOUT_S)
