"""How published weights get into a vLLM worker: transfer engines registered with vLLM as a plugin.

`register` is the target of a `vllm.general_plugins` entry point, which every vLLM process calls, also those that
vLLM starts itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from exchange.types import TensorMeta
from rollout.weights.manifest import checked_tensors, read_buckets
from rollout.weights.orphan_guard import end_with_parent

SHARED_MEMORY = "proxrl_shared_memory"
NCCL = "proxrl_nccl"


def register() -> None:
    """Register our transfer engines and tie the life of engine processes to their parent's."""
    end_with_parent()
    registered = WeightTransferEngineFactory._registry
    if SHARED_MEMORY not in registered:
        WeightTransferEngineFactory.register_engine(SHARED_MEMORY, SharedMemoryReceiver)
    if NCCL not in registered:
        WeightTransferEngineFactory.register_engine(NCCL, "rollout.weights.nccl_receiver", "NcclReceiver")


@dataclass
class SharedMemoryInit(WeightTransferInitInfo):
    """Nothing to agree on beforehand: the files' paths come with each update."""


@dataclass
class SharedMemoryUpdate(WeightTransferUpdateInfo):
    """One whole update: bucket files and the manifest, as plain values that cross processes."""

    buckets: list[str]
    tensors: list[dict[str, Any]]

    def manifest(self) -> list[TensorMeta]:
        """What the files have to hold: one entry a tensor, in the order in which they were published."""
        return [TensorMeta(t["name"], t["dtype"], tuple(t["shape"]), t["sha256"]) for t in self.tensors]


def load_checkpoint_format(model: Any, model_config: Any, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Load Hugging Face tensors into a running model.

    A bare `load_weights` would write into parameters whose originals the layers freed when they repacked them.
    """
    initialize_layerwise_reload(model)
    model.load_weights(tensors)
    finalize_layerwise_reload(model, model_config)
    repack_tied_heads(model)


def repack_tied_heads(model: Any) -> None:
    """Redo the packing of layers whose weight is another layer's parameter.

    The reload refreshes packed copies of layers that received tensors. A tied lm_head receives none, so on CPUs it
    would go on multiplying with the packed copy of the weights before, and nothing would raise.
    """
    owners: dict[int, Any] = {}
    for module in model.modules():
        weight = module._parameters.get("weight")
        if weight is None:
            continue
        owner = owners.setdefault(id(weight), module)
        if owner is not module and hasattr(module, "cpu_linear"):
            module.quant_method.process_weights_after_loading(module)


class SharedMemoryReceiver(WeightTransferEngine[SharedMemoryInit, SharedMemoryUpdate]):
    """Maps bucket files written on this machine; nothing is loaded unless every tensor's sha256 is right."""

    init_info_cls = SharedMemoryInit
    update_info_cls = SharedMemoryUpdate

    sent: dict[str, torch.Tensor]  # of the update in progress, for the check

    def init_transfer_engine(self, init_info: SharedMemoryInit) -> None:
        self.sent = {}

    def start_weight_update(self) -> None:
        self.sent = {}

    def update_weights(self, update_info: dict[str, Any]) -> None:
        # The base class synchronizes an accelerator afterwards, which a CPU does not have.
        self.receive_weights(self.parse_update_info(update_info))
        if self.device.type != "cpu":
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: SharedMemoryUpdate) -> None:
        """Check the manifest, then load.

        Raises:
            WeightMismatch: the files do not hold what was published; the model is untouched then.
        """
        tensors = checked_tensors(read_buckets(update_info.buckets), update_info.manifest())
        self.load(tensors)
        self.sent = tensors

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Load tensors that have been checked, by their Hugging Face names, into the running model."""
        load_checkpoint_format(self.model, self.model_config, tensors.items())

    def finish_weight_update(self) -> None:
        """Loading is finished when `update_weights` returns."""

    def shutdown(self) -> None:
        self.sent = {}
