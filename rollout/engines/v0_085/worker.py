"""What our adapter calls inside the worker processes of vLLM 0.8.5's V0 engine."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rollout.engines.float32_head import install_float32_head, refresh_float32_head
from rollout.engines.received_weights import check_loaded, read_update


class WorkerV0:
    """Mixed into vLLM's worker class (`worker_extension_cls`); `self` is the worker."""

    model_runner: Any

    def prepare_updates(self, float32_head: bool) -> None:
        """Once, before the first request."""
        if float32_head:
            install_float32_head(self.model_runner.model)

    @torch.no_grad()
    def load_published(self, buckets: Sequence[str], tensors: Sequence[Mapping[str, Any]]) -> None:
        """Load an update between two engine steps. This engine packs nothing, so a plain load is whole.

        Raises:
            WeightMismatch: the files do not hold what was published; the model is untouched then.
        """
        self._sent = read_update(buckets, tensors)
        self.model_runner.model.load_weights(iter(self._sent.items()))
        refresh_float32_head(self.model_runner.model)

    def check_weights(self, version: int) -> int:
        """Compare the model with the update just loaded; returns how many tensors were compared."""
        sent, self._sent = self._sent, {}
        return check_loaded(self.model_runner.model, sent, version, self)
