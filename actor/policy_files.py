"""The policy as a Hugging Face folder: sharded safetensors, config, and the tokenizer it came with."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch.distributed as dist

from actor.full_weights import iter_full_weights
from actor.model import PolicyNetwork
from actor.tensor_files import save_tensors
from configs.schema import ModelConfig

_SHARD_BYTES = 2 << 30
# Everything else in the model's folder travels along: configs, tokenizer, chat template, remote code.
_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".index.json")
_SIDE_FILES = ["*.json", "*.txt", "*.model", "*.jinja", "*.py", "*.tiktoken", "*.jsonl"]


def save_policy(engine: Any, model: ModelConfig, directory: str) -> None:
    """Write a folder that `from_pretrained` and inference engines read. Rank 0 writes; collective.

    Adapters are merged. Raises OSError when the folder cannot be written.
    """
    target = Path(directory)
    writes = dist.get_rank() == 0
    shards: list[tuple[Path, list[str]]] = []
    total_bytes = 0
    if writes:
        target.mkdir(parents=True, exist_ok=True)
    for bucket in iter_full_weights(engine, _SHARD_BYTES):
        if writes:
            path = target / f"shard-{len(shards):05d}"
            tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in bucket}
            save_tensors(tensors, path)
            total_bytes += sum(t.numel() * t.element_size() for t in tensors.values())
            shards.append((path, list(tensors)))
    if writes:
        _name_shards(target, shards, total_bytes)
        _copy_side_files(model, target)
        _write_config(model, target, is_tied(engine.module))
    dist.barrier()


def _name_shards(target: Path, shards: list[tuple[Path, list[str]]], total_bytes: int) -> None:
    """Give the shards their usual names, which hold the number of shards, and write the index."""
    if len(shards) == 1:
        shards[0][0].rename(target / "model.safetensors")
        return
    weight_map: dict[str, str] = {}
    for number, (path, names) in enumerate(shards, start=1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        path.rename(target / name)
        weight_map |= dict.fromkeys(names, name)
    index = {"metadata": {"total_size": total_bytes}, "weight_map": weight_map}
    (target / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))


def _copy_side_files(model: ModelConfig, target: Path) -> None:
    source = model_folder(model.path)
    for file in source.iterdir():
        if file.is_file() and not file.name.endswith(_WEIGHT_SUFFIXES):
            shutil.copyfile(file, target / file.name)


def _write_config(model: ModelConfig, target: Path, tied: bool) -> None:
    """The model's own config, which must describe the weights just written, whatever the original's were."""
    config = json.loads((model_folder(model.path) / "config.json").read_text())
    config.pop("torch_dtype", None)
    config["dtype"] = model.dtype
    for part in (config, config.get("text_config")):
        if isinstance(part, dict) and part.get("tie_word_embeddings", tied) != tied:
            part["tie_word_embeddings"] = tied
    (target / "config.json").write_text(json.dumps(config, indent=2))


def is_tied(policy: PolicyNetwork) -> bool:
    """Whether the head multiplies with the very embedding."""
    return bool(policy.inner.get_output_embeddings().weight is policy.inner.get_input_embeddings().weight)


def model_folder(path: str) -> Path:
    """The local folder of `model.path`; a hub name is looked up in the local cache, where loading put it."""
    if Path(path).is_dir():
        return Path(path)
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(path, allow_patterns=_SIDE_FILES, local_files_only=True))
