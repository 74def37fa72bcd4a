"""Do the weights in a model's folder belong to its config? Read from the files' headers, before anything starts."""

import json
import struct
from pathlib import Path

from configs.errors import refused

Shapes = dict[str, tuple[int, ...]]
MAX_HEADER_BYTES = 100 << 20


def check_weights_fit(model_path: str, trust_remote_code: bool) -> None:
    """Refuse a local folder whose safetensors hold other shapes than its config asks for, or lack tensors.

    Raises:
        ConfigError: the first tensor that does not fit, or a file that is cut short.
    """
    files = sorted(Path(model_path).glob("*.safetensors")) if Path(model_path).is_dir() else []
    if not files:
        return
    held: Shapes = {}
    for file in files:
        held |= _header(model_path, file)
    wanted, may_be_missing = _shapes_of_config(model_path, trust_remote_code)
    prefixed = {name.removeprefix("model."): shape for name, shape in held.items()}
    for name, shape in wanted.items():
        found = held.get(name, prefixed.get(name.removeprefix("model.")))
        if found is None and name not in may_be_missing:
            problem = f"holds no tensor {name}, which its config.json asks for"
        elif found is not None and found != shape:
            problem = f"holds {name} of shape {found}, its config.json asks for {shape}"
        else:
            continue
        raise refused("model.path", model_path, problem, "copy config and weights of the same model there")


def _header(model_path: str, file: Path) -> Shapes:
    """Names and shapes of a safetensors file; its size must be what the header says."""
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > MAX_HEADER_BYTES:
                raise ValueError("header too long")
            header = json.loads(stream.read(length))
        header.pop("__metadata__", None)
        end = max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
        if file.stat().st_size != 8 + length + end:
            raise ValueError("cut short")
        return {name: tuple(tensor["shape"]) for name, tensor in header.items()}
    except (struct.error, ValueError, KeyError, TypeError, AttributeError):
        raise refused(
            "model.path", model_path, f"holds a damaged {file.name}", "download or save the model again"
        ) from None


def _shapes_of_config(model_path: str, trust_remote_code: bool) -> tuple[Shapes, set[str]]:
    """What the config's architecture holds, and which of it another tensor or nothing may stand for."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(model_path, trust_remote_code=trust_remote_code)
    if getattr(config, "auto_map", None) or getattr(config, "quantization_config", None):
        return {}, set()  # code of its own decides what is stored how
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    every = dict(model.named_parameters(remove_duplicate=False))
    first: dict[int, str] = {}
    tied = {name for name, p in every.items() if first.setdefault(id(p), name) != name}
    return {name: tuple(p.shape) for name, p in every.items()}, tied
