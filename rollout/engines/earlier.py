"""What the adapters of earlier vLLM versions share: they have neither our receiver nor a float32 head of their own."""

from typing import Any

from exchange.types import WeightUpdate
from rollout.data.tokenizer import eos_token_ids, load_tokenizer
from rollout.engines.cpu_cache_size import set_cache_size
from rollout.engines.language_model import language_model_json
from rollout.engines.v1_current.adapter import VllmV1Engine
from rollout.environments.variables import apply_cpu_environment
from rollout.time_limit import Deadline
from rollout.weights.in_flight_update import InFlightUpdate


class LoadOnCall(InFlightUpdate):
    """The same phases; the engine's processes load the published weights when they are called to."""

    async def _load(self) -> None:
        await self._wait(self._llm.load(self._update), f"the weights of version {self._update.version}")


class EarlierEngine(VllmV1Engine):
    """As `VllmV1Engine`, with what that version lacks put into the engine's processes once they run."""

    _float32_head = False

    async def start(self) -> None:
        limit = Deadline(self._config.rollout.startup_timeout_s)
        await self._open(limit)
        prepared = self._llm.collective_rpc("prepare_updates", args=(self._float32_head,))
        await limit.wait(self.while_alive(prepared), "the weight receiver to start")

    def _prepare_model(self) -> tuple[dict[str, Any], bool]:
        """The language model's config.json, and whether it runs on CPUs, for which this process is set up."""
        from vllm.platforms import current_platform

        on_cpu = current_platform.is_cpu()
        if on_cpu:
            apply_cpu_environment()
            set_cache_size(self._config)
        model = self._config.model
        self._end_token_ids = eos_token_ids(load_tokenizer(model.path, model.trust_remote_code), model.path)
        model_json = language_model_json(model.path)
        self._vocab_size = model_json["vocab_size"]
        return model_json, on_cpu

    def _in_flight(self, update: WeightUpdate) -> InFlightUpdate:
        return LoadOnCall(self, self._llm, self._config, self._worker, update)
