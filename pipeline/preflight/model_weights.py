"""Do the weights in a model's folder belong to its config? Read from the files' headers, before anything starts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.utils import logging

from actor.lora import check_targets
from configs.errors import refused
from configs.schema import Config


def check_weights(config: Config, model: PretrainedConfig, trains: bool = True) -> PreTrainedModel | None:
    """Refuse weights of other shapes than config.json asks for, missing tensors, and adapters for no layer.

    transformers loads the headers' names and shapes as it will load the weights, onto no device: what it renames,
    merges or ties is what the trainer gets. A model with code or quantization of its own decides itself.

    Args:
        config: model path and adapters.
        model: its config.json.
        trains: whether adapters will be added.

    Returns:
        The model on the meta device; None where it decides itself.

    Raises:
        ConfigError: the first tensor that does not fit, a file that is cut short, or an adapter's unknown target.
    """
    if getattr(model, "auto_map", None) or getattr(model, "quantization_config", None):
        return None
    path = config.model.path
    stored = _stored(path)
    if not stored:  # left to the download
        with torch.device("meta"):
            built: PreTrainedModel = AutoModelForCausalLM.from_config(model)
    else:
        built = _loaded(path, model, stored)
    if trains:
        check_targets(built, config.actor.lora)
    return built


def _loaded(path: str, model: PretrainedConfig, stored: dict[str, torch.Tensor]) -> PreTrainedModel:
    known = MODEL_FOR_CAUSAL_LM_MAPPING[type(model)]
    model_class = known[0] if isinstance(known, tuple) else known
    remedy = "copy config and weights of the same model there"
    try:
        with _quiet():
            built, info = model_class.from_pretrained(
                None,
                config=model,
                state_dict=stored,
                device_map={"": "meta"},
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
    except RuntimeError:  # experts that cannot be merged: some are missing, or differ in shape
        problem = "holds tensors that transformers cannot merge into what its config.json asks for"
        raise refused("model.path", path, problem, remedy) from None
    for name, found, wanted in sorted(info["mismatched_keys"]):
        problem = f"holds {name} of shape {tuple(found)}, its config.json asks for {tuple(wanted)}"
        raise refused("model.path", path, problem, remedy)
    for name in sorted(info["missing_keys"]):
        raise refused("model.path", path, f"holds no tensor {name}, which its config.json asks for", remedy)
    checked: PreTrainedModel = built
    return checked


def _stored(path: str) -> dict[str, torch.Tensor]:
    """Shapes of all tensors in a folder's safetensors files, as tensors without memory."""
    stored: dict[str, torch.Tensor] = {}
    for file in sorted(Path(path).glob("*.safetensors")) if Path(path).is_dir() else ():
        try:
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118 – no mapping
                    stored[name] = torch.empty(tensors.get_slice(name).get_shape(), device="meta")
        except OSError as error:
            raise refused(
                "model.path",
                path,
                f"holds {file.name}, which cannot be read ({error.strerror or error})",
                "make it readable",
            ) from None
        except SafetensorError:
            raise refused(
                "model.path", path, f"holds a damaged {file.name}", "download or save the model again"
            ) from None
    return stored


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' own report of what does not fit, which we tell in one sentence."""
    level, shows_progress = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shows_progress:
            logging.enable_progress_bar()
