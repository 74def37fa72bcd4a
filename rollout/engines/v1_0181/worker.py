"""What our adapter calls inside the worker processes of vLLM 0.18.1's V1 engine."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rollout.engines.float32_head import install_float32_head, original_method, refresh_float32_head
from rollout.engines.received_weights import check_loaded, read_update
from rollout.engines.version_boundaries import RequestBook


class WorkerV1:
    """Mixed into vLLM's worker class (`worker_extension_cls`); `self` is the worker."""

    model_runner: Any
    model_config: Any

    def prepare_updates(self, float32_head: bool) -> None:
        """Once, before the first request."""
        self.model_runner.requests = RequestBook(self.model_runner.requests)
        if float32_head:
            install_float32_head(self.model_runner.get_model())

    @torch.no_grad()
    def load_published(self, buckets: Sequence[str], tensors: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Load an update between two engine steps; returns the census at that boundary as plain values.

        Raises:
            WeightMismatch: the files do not hold what was published; the model is untouched then.
        """
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

        sent = read_update(buckets, tensors)
        census = self.model_runner.requests.take_census()
        model = self.model_runner.get_model()
        head = model.lm_head
        # The reload looks at a layer's method to know how to pack it, and must see the engine's own.
        replaced, head.quant_method = head.quant_method, original_method(head)
        initialize_layerwise_reload(model)
        model.load_weights(iter(sent.items()))
        finalize_layerwise_reload(model, self.model_config)
        # A head tied to the embedding receives no tensor of its own and would keep its old packed copy.
        head.quant_method.process_weights_after_loading(head)
        head.quant_method = replaced
        refresh_float32_head(model)
        self._sent = sent
        return {"num_tokens": dict(census.num_tokens), "ended": sorted(census.ended)}

    def check_weights(self, version: int) -> int:
        """Compare the model with the update just loaded; returns how many tensors were compared."""
        sent, self._sent = self._sent, {}
        return check_loaded(self.model_runner.get_model(), sent, version, self)
