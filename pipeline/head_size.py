"""Attention heads that an engine cannot compute on a CPU: the engine would end while it starts, minutes later."""

from collections.abc import Mapping
from typing import Any

from configs.errors import refused
from configs.schema import Config
from pipeline.hardware import computes_on_cpu

CPU_HEAD_SIZES: dict[str, tuple[int, ...]] = {
    "vllm-v1": (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512),
    "vllm-0.18.1-v1": (32, 64, 80, 96, 112, 128, 160, 192, 224, 256),
    "vllm-0.8.5-v0": (32, 64, 80, 96, 112, 128, 192, 256),
}
"""By `rollout.engine`: what its attention on a CPU supports (`get_supported_head_sizes` of its CPU backend)."""


def head_size(model: Mapping[str, Any]) -> int | None:
    """Width of one attention head by the model's config.json; None where that does not tell."""
    text = model.get("text_config") or model
    if text.get("kv_lora_rank"):
        return None  # latent attention has kernels of its own
    hidden, heads = text.get("hidden_size"), text.get("num_attention_heads")
    size = text.get("head_dim") or (hidden // heads if isinstance(hidden, int) and heads else None)
    return size if isinstance(size, int) else None


def check_head_size(config: Config, model: Mapping[str, Any]) -> None:
    """Refuse a model whose heads the engine cannot compute here; `model` is its config.json.

    Raises:
        ConfigError: the size, and those that are supported.
    """
    size, supported = head_size(model), CPU_HEAD_SIZES[config.rollout.engine]
    if size is None or size in supported or not computes_on_cpu(config):
        return
    raise refused(
        "model.path",
        config.model.path,
        f"has attention heads of size {size}, which {config.rollout.engine} cannot compute on a CPU "
        f"(it can {', '.join(map(str, supported))})",
        "choose another model, or a machine with GPUs",
    )
