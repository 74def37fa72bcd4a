"""Compute the lm_head in float32 in engines that cannot be told to, as the trainer does.

MiniMax-M1 and ScaleRL report the same repair: small differences of the logits become visible in the policy ratio.
"""

from typing import Any

import torch
import torch.nn.functional as F


class Float32Head:
    """Replaces the lm_head's `quant_method`: everything but the matrix product is the original's."""

    def __init__(self, layer: Any) -> None:
        self._original: Any = layer.quant_method
        self._weight = torch.empty(0)
        self.refresh(layer)

    def refresh(self, layer: Any) -> None:
        """Take the layer's weights again; call it after each update."""
        self._weight = layer.weight.detach().float()

    def apply(self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """Hidden states [M, K] in the model's type → logits [M, V] in float32, by the weights of the last `refresh`."""
        return F.linear(x.float(), self._weight, None if bias is None else bias.float())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def install_float32_head(model: Any) -> None:
    """Replace the lm_head's product; nothing to do where the weights are float32 already."""
    head = model.lm_head
    if head.weight.dtype != torch.float32:
        head.quant_method = Float32Head(head)


def original_method(head: Any) -> Any:
    """The lm_head's own method, whether it was replaced or not."""
    method = head.quant_method
    return method._original if isinstance(method, Float32Head) else method


def refresh_float32_head(model: Any) -> None:
    """After an update; does nothing where no float32 head was installed."""
    method = model.lm_head.quant_method
    if isinstance(method, Float32Head):
        method.refresh(model.lm_head)
