"""The part of a model's config.json that describes its language model."""

from typing import Any

from rollout.data.model_files import read_model_json


def language_model_json(model_path: str) -> dict[str, Any]:
    """Models of several modalities keep it one level down."""
    model = read_model_json(model_path, "config.json")
    inner = model.get("text_config")
    return inner if isinstance(inner, dict) else model
