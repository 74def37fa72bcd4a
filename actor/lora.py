"""LoRA adapters through peft: trained alone, published merged into the weights they adapt.

peft is imported only for an adapter: it takes seconds to load.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from configs.actor_schema import LoraConfig
from configs.errors import refused

_ADAPTER = "default"


def check_targets(causal_lm: nn.Module, config: LoraConfig) -> None:
    """Refuse names that no layer has: peft would adapt the others without a word.

    Args:
        causal_lm: the model as transformers builds it; its weights may be on the meta device.
        config: the adapter; rank 0 has no targets.

    Raises:
        ConfigError: the first such name, and those that exist.
    """
    layers = _linear_layers(causal_lm)
    existing = sorted({name.rpartition(".")[2] for name in layers} - {"lm_head", "embed_out"})
    for target in config.target_modules if config.rank else ():
        if not any(_matches(name, target) for name in layers):
            raise refused(
                "actor.lora.target_modules",
                target,
                "matches no linear layer of the model",
                f"use names among {', '.join(existing)}",
            )


def num_adapter_parameters(causal_lm: nn.Module, config: LoraConfig) -> int:
    """Parameters of the adapters that `add_lora` would add."""
    layers = _linear_layers(causal_lm).items()
    adapted = [layer for name, layer in layers if any(_matches(name, target) for target in config.target_modules)]
    return sum(config.rank * sum(layer.weight.shape) for layer in adapted)


def _linear_layers(causal_lm: nn.Module) -> dict[str, nn.Linear | Conv1D]:
    return {name: module for name, module in causal_lm.named_modules() if isinstance(module, nn.Linear | Conv1D)}


def _matches(layer: str, target: str) -> bool:
    """Whether peft adapts the layer of this name for one of `actor.lora.target_modules`."""
    return f".{layer}".endswith(f".{target}")


def add_lora(causal_lm: PreTrainedModel, config: LoraConfig) -> nn.Module:
    """Freeze the model and add an adapter to `actor.lora.target_modules`; raises as `check_targets`."""
    from peft import LoraConfig as PeftLoraConfig
    from peft import get_peft_model

    check_targets(causal_lm, config)
    peft_config = PeftLoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=list(config.target_modules),
        task_type="CAUSAL_LM",
    )
    return get_peft_model(causal_lm, peft_config, autocast_adapter_dtype=False)


def lora_layers(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """(name, layer) of every adapted layer beneath `module`, which may have none."""
    return ((name, layer) for name, layer in module.named_modules() if hasattr(layer, "lora_A"))


def merged_weight(layer: Any) -> torch.Tensor:
    """The adapted layer's weight with its low-rank update added (computed in float32), in the weight's type."""
    weight = layer.get_base_layer().weight
    a, b = layer.lora_A[_ADAPTER].weight, layer.lora_B[_ADAPTER].weight
    return (weight.float() + layer.scaling[_ADAPTER] * (b.float() @ a.float())).to(weight.dtype)
