"""The small JSON files that come with a model: vocabulary size, context length and the like."""

import hashlib
import json
from typing import Any

from configs.errors import refused


def read_model_json(model_path: str, name: str) -> dict[str, Any]:
    """The JSON object of file `name` in the model's folder or hub repository; empty when it has no such file.

    Raises:
        ConfigError: when the file is there and no JSON object.
    """
    # Seconds to import, which a command that reads no model need not pay.
    from transformers.utils import cached_file

    path = cached_file(
        model_path, name, _raise_exceptions_for_missing_entries=False, _raise_exceptions_for_connection_errors=False
    )
    if path is None:
        return {}
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except ValueError as error:
        raise refused(
            "model.path", model_path, f"holds a damaged {name} ({error})", "download or save the model again"
        ) from error
    if not isinstance(content, dict):
        raise refused("model.path", model_path, f"holds a {name} that is no object", "download or save the model again")
    return content


def vocab_size(model_path: str) -> int | None:
    """Rows of the model's embedding; None when its config does not say."""
    return _text_config_value(model_path, "vocab_size")


def context_length(model_path: str) -> int | None:
    """Longest sequence in tokens that the model was made for; None when its config does not say."""
    return _text_config_value(model_path, "max_position_embeddings")


def architecture(model_path: str) -> str:
    """Digest of what makes two models' weights interchangeable: everything in config.json that shapes them."""
    config = read_model_json(model_path, "config.json")
    ignored = {"transformers_version", "dtype", "torch_dtype", "_name_or_path", "use_cache"}
    shaping = {k: v for k, v in config.items() if k not in ignored}
    return hashlib.sha256(json.dumps(shaping, sort_keys=True).encode()).hexdigest()[:16]


def _text_config_value(model_path: str, key: str) -> int | None:
    config = read_model_json(model_path, "config.json")
    # Models of several modalities keep the language model's values one level down.
    value = config.get(key, (config.get("text_config") or {}).get(key))
    return value if isinstance(value, int) else None
