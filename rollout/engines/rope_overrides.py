"""The rotary base of a model saved by transformers 5, in the words that transformers 4 reads.

Version 5 writes `rope_parameters`; version 4, which older engines run with, looks for `rope_theta` and `rope_scaling`
and takes its default base where it finds none. The model would load, and compute something else.
"""

from collections.abc import Mapping
from typing import Any

from configs.errors import refused


def rope_overrides(model_json: Mapping[str, Any], model_path: str) -> dict[str, Any]:
    """Overrides of the model's config.json; empty where it says what version 4 understands.

    Raises:
        ConfigError: the model has several rotary embeddings, which version 4 cannot be told.
    """
    parameters = model_json.get("rope_parameters")
    if not isinstance(parameters, Mapping) or "rope_theta" in model_json:
        return {}
    if any(isinstance(value, Mapping) for value in parameters.values()):
        why = "has several rotary embeddings, which this engine cannot read"
        raise refused("model.path", model_path, why, "use rollout.engine=vllm-v1")
    rest = {name: value for name, value in parameters.items() if name != "rope_theta"}
    overrides: dict[str, Any] = {"rope_theta": parameters["rope_theta"]} if "rope_theta" in parameters else {}
    if rest.get("rope_type", "default") != "default":
        overrides["rope_scaling"] = rest
    return overrides
