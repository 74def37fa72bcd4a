"""The adapter for vLLM 0.8.5's V0 engine, the reference of the migration study, behind `rollout.engine.Engine`."""

import asyncio
from collections.abc import Sequence
from typing import Any

from rollout.cpu_process import apply_cpu_environment
from rollout.engines.arguments import require_known, v0_085_arguments
from rollout.engines.cpu_cache_size import set_cache_size
from rollout.engines.language_model import language_model_json
from rollout.engines.received_weights import plain_update
from rollout.engines.v0_loop import V0Loop
from rollout.engines.v0_sampling import v0_sampling_params, v0_score_params
from rollout.errors import EngineUnusable
from rollout.in_flight_update import InFlightUpdate
from rollout.time_limit import Deadline
from rollout.tokenizer import eos_token_ids, load_tokenizer
from rollout.types import Completion, Sampling, UpdateReport, WeightUpdate
from rollout.vllm_v1 import VllmV1Engine

CLOSE_TIMEOUT_S = 5.0


class VllmV0Engine(VllmV1Engine):
    """As `VllmV1Engine`, over `LLMEngine.step()`: versions are stamped step by step."""

    _llm: V0Loop | None

    async def start(self) -> None:
        limit = Deadline(self._config.rollout.startup_timeout_s)
        await limit.wait(asyncio.to_thread(self._build), f"the engine of rollout worker {self._worker} to start")
        self._slots = asyncio.Semaphore(max(1, self.engine_args["max_num_seqs"] - 1))
        assert self._llm is not None
        prepared = self._llm.collective_rpc("prepare_updates", (self._float32_head,))
        await limit.wait(prepared, "the weight receiver to start")

    def _build(self) -> None:
        from vllm.platforms import current_platform

        if current_platform.is_cpu():
            apply_cpu_environment()
            set_cache_size(self._config)
        from vllm.engine.arg_utils import EngineArgs
        from vllm.engine.llm_engine import LLMEngine

        model = self._config.model
        self._end_token_ids = eos_token_ids(load_tokenizer(model.path, model.trust_remote_code), model.path)
        model_json = language_model_json(model.path)
        self._vocab_size = model_json["vocab_size"]
        arguments = v0_085_arguments(self._config, current_platform.is_cpu(), model_json)
        require_known(arguments.args, EngineArgs, "vLLM 0.8.5")
        self.engine_args, self._float32_head = arguments.args, arguments.float32_head
        args = EngineArgs(**self.engine_args)
        loop = V0Loop(lambda: LLMEngine.from_engine_args(args), self.version)
        loop.start()
        self._llm = loop

    async def generate(self, request_id: str, prompt_token_ids: Sequence[int], sampling: Sampling) -> Completion:
        from rollout.vllm_sampling import num_logprobs, to_completion

        self._require_room(len(prompt_token_ids), sampling.max_new_tokens)
        asked = num_logprobs(sampling, self._vocab_size)
        params = v0_sampling_params(sampling, self._end_token_ids, asked)
        async with self._slots:
            output = await self._request(request_id, prompt_token_ids, params)
        completion = to_completion(output.outputs[0], sampling, self._vocab_size)
        if completion.versions and completion.versions[-1] > self.version:
            await self._settled.wait()
            self._require_usable()
        return completion

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

    async def update(self, update: WeightUpdate) -> UpdateReport:
        async with self._updating:
            self._require_usable()
            if update.version <= self.version:
                raise ValueError(f"update to version {update.version}, but the engine is at version {self.version}")
            return await InFlightUpdateV0(self, self._llm, self._config, self._worker, update).run()

    async def close(self) -> None:
        loop, self._llm = self._llm, None
        self.fail(EngineUnusable(self._worker, "its engine was closed"))
        if loop is not None:
            loop.shutdown()
            await asyncio.to_thread(loop.join, CLOSE_TIMEOUT_S)


class InFlightUpdateV0(InFlightUpdate):
    """The same phases: block at a boundary, load, check, label, go on over the cache as it is."""

    async def _load(self) -> None:
        loaded = self._llm.collective_rpc("load_published", plain_update(self._update))
        await self._wait(loaded, f"the weights of version {self._update.version}")
