"""LoRA adapters through peft: trained alone, published merged into the weights they adapt.

peft is imported only where an adapter is asked for: it takes seconds to load.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from configs.actor_schema import LoraConfig

_ADAPTER = "default"


def add_lora(causal_lm: PreTrainedModel, config: LoraConfig) -> nn.Module:
    """Freeze the model and add an adapter to `actor.lora.target_modules`. Raises ValueError if none matches."""
    from peft import LoraConfig as PeftLoraConfig
    from peft import get_peft_model

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
