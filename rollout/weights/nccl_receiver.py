"""vLLM's NCCL transfer with our verification: what was received is kept and held against the manifest.

Imported only where the backend is chosen, so that CPU builds never touch NCCL.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferEngine, NCCLWeightTransferUpdateInfo
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

from exchange.types import TensorMeta
from rollout.weights.manifest import checked_tensors


@dataclass
class NcclUpdate(NCCLWeightTransferUpdateInfo):
    """vLLM's own update info, and the sha256 of each tensor's bytes in the same order."""

    sha256: list[str] = field(default_factory=list)

    def manifest(self) -> list[TensorMeta]:
        """What has to arrive: one entry a tensor, in the order in which they are sent."""
        rows = zip(self.names, self.dtype_names, self.shapes, self.sha256, strict=True)
        return [TensorMeta(name, dtype, tuple(shape), digest) for name, dtype, shape, digest in rows]


class NcclReceiver(NCCLWeightTransferEngine):
    """Receives by NCCL broadcast. Host copies of what arrived are kept until the update has been checked."""

    update_info_cls = NcclUpdate

    sent: dict[str, torch.Tensor]
    model_update_group: Any  # the communicator, once joined

    def init_transfer_engine(self, init_info: Any) -> None:
        """Join a group; the one before is aborted, since ending it in order would wait for members that are gone."""
        if self.model_update_group is not None:
            self.model_update_group.destroy()
            self.model_update_group = None
        super().init_transfer_engine(init_info)

    def start_weight_update(self) -> None:
        self.sent = {}
        super().start_weight_update()

    def receive_weights(self, update_info: Any) -> None:
        """Receive and load.

        Raises:
            WeightMismatch: what arrived is not what was published.
        """
        load = self.model.load_weights

        def record_and_load(weights: Iterable[tuple[str, torch.Tensor]]) -> Any:
            arrived = list(weights)
            # Copies, because the receive buffers are used again for the next tensors.
            self.sent.update((name, tensor.to("cpu", copy=True)) for name, tensor in arrived)
            return load(arrived)

        self.model.load_weights = record_and_load
        try:
            super().receive_weights(update_info)
        finally:
            del self.model.load_weights
        manifest = update_info.manifest()
        names = {meta.name for meta in manifest}
        checked_tensors(((n, t) for n, t in self.sent.items() if n in names), manifest)

    def finish_weight_update(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        self.sent = {}
        super().shutdown()
