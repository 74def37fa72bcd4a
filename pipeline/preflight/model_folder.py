"""Is the model where `model.path` says, whole, and of a size that the run and the engine can use?"""

import glob
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from configs.errors import refused
from configs.schema import Config
from pipeline.machine.hardware import computes_on_cpu

WEIGHTS = ("*.safetensors", "*.bin")
FETCHED_BY = {
    "SmolLM2-135M-Instruct": "fetch it with `make smollm2`",
    "quickstart": "make it with `make quickstart`",
}
"""What the folders are called that a command of the project fills, or those above them."""


def check_model_folder(config: Config) -> None:
    """Refuse a local folder that is missing or not a whole model; a hub name is left to the download.

    Raises:
        ConfigError: what is missing and how to get it.
    """
    path = config.model.path
    folder = Path(path)
    if not folder.exists():
        if path.startswith((".", "/", "~")) or path.count("/") > 1:
            known = (command for name, command in FETCHED_BY.items() if any(p.startswith(name) for p in folder.parts))
            remedy = next(known, "name an existing folder or a model on the hub")
            raise refused(
                "model.path", path, f"does not exist in {Path.cwd()}" if path[0] != "/" else "does not exist", remedy
            )
        return
    if not folder.is_dir():
        raise refused("model.path", path, "is a file", "name the folder that holds the model")
    if glob.escape(path) != path:
        raise refused(
            "model.path", path, "holds one of * ? [, which the engine reads as a pattern", "rename the folder"
        )
    if not (folder / "config.json").is_file():
        raise refused("model.path", path, "holds no config.json", "name a folder saved by transformers")
    if not any(any(folder.glob(pattern)) for pattern in WEIGHTS):
        raise refused("model.path", path, "holds no weights (*.safetensors)", "copy or save them there")
    if (folder / "adapter_config.json").exists():
        raise refused(
            "model.path",
            path,
            "holds adapter_config.json, an adapter that transformers would load on top and the engine would not",
            "merge it into the weights (peft's merge_and_unload), or move its files away",
        )
    model = _read_config(folder)
    _check_context(config, model)
    check_head_size(config, model)


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise refused(
            "model.path", folder, f"holds an unreadable config.json ({error})", "save the model again"
        ) from None
    return content if isinstance(content, dict) else {}


def _check_context(config: Config, model: dict[str, Any]) -> None:
    context = model.get("max_position_embeddings")
    answer = config.rollout.sampling.max_new_tokens
    longest = config.dataset.max_prompt_tokens + answer
    if isinstance(context, int) and longest > context:
        raise refused(
            "rollout.sampling.max_new_tokens",
            answer,
            f"and dataset.max_prompt_tokens={config.dataset.max_prompt_tokens} exceed the model's context of {context}",
            f"lower one of them so that their sum is at most {context}",
        )


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
