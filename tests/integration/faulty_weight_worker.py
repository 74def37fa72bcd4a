"""The weight worker with faults that can be switched on for one load, inside the real engine's process."""

from typing import Any

import torch
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from rollout.weights.receiver import load_checkpoint_format
from rollout.weights.worker_extension import WeightWorker


class FaultyWeightWorker(WeightWorker):
    def inject(self, fault: str, name: str = "") -> None:
        """`stale_head`, `zero` or `drop` (a sent tensor), or `overwrite` (a parameter after the load)."""
        receiver = self.weight_transfer_engine
        original = receiver.load

        def load(tensors: dict[str, torch.Tensor]) -> None:
            receiver.load = original
            _load_with_fault(receiver, tensors, fault, name)

        receiver.load = load


def _load_with_fault(receiver: Any, tensors: dict[str, torch.Tensor], fault: str, name: str) -> None:
    model, config = receiver.model, receiver.model_config
    if fault == "stale_head":
        initialize_layerwise_reload(model)
        model.load_weights(tensors.items())
        finalize_layerwise_reload(model, config)
    elif fault == "zero":
        load_checkpoint_format(model, config, {**tensors, name: torch.zeros_like(tensors[name])}.items())
    elif fault == "drop":
        load_checkpoint_format(model, config, [(n, t) for n, t in tensors.items() if n != name])
    elif fault == "overwrite":
        load_checkpoint_format(model, config, tensors.items())
        with torch.no_grad():
            model.get_parameter(name).view(-1)[0] += 1e-6
    else:
        raise ValueError(fault)
