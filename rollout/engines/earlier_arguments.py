"""Engine arguments of the other engines: the pinned ones and the user's, in the words each version knows.

The rotary base of a model saved by transformers 5, in the words that transformers 4 reads.

Version 5 writes `rope_parameters`; version 4, which older engines run with, looks for `rope_theta` and `rope_scaling`
and takes its default base where it finds none. The model would load, and compute something else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from configs.checks.pinned import KWARGS_KEY, merge_engine_args
from configs.errors import refused
from configs.schema import Config
from rollout.engines.v1_current.arguments import derived_args, whole_prompts


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


# Arguments that an engine has no name for because it does only one thing: their one value there.
V0_ALWAYS: dict[str, Any] = {"logprobs_mode": "processed_logprobs", "async_scheduling": False}
# Where they come from elsewhere in the config, and are not arguments of that version.
V0_DROPPED = ("enable_log_requests", "scheduling_policy", "max_logprobs")


@dataclass(frozen=True)
class EngineArguments:
    """Arguments for `EngineArgs`, and what our worker extension does in the engine's stead."""

    args: dict[str, Any]
    float32_head: bool


def v1_0181_arguments(config: Config, on_cpu: bool, model_json: Mapping[str, Any]) -> EngineArguments:
    """For vLLM 0.18.1; an argument set to null is left to the engine's own default."""
    derived = derived_args(config) | {"worker_extension_cls": "rollout.engines.v1_0181.worker.WorkerV1"}
    if on_cpu:
        derived |= {"enforce_eager": True} | whole_prompts(config)
    return _split(derived | merge_engine_args(config.rollout), rope_overrides(model_json, config.model.path))


def v0_085_arguments(config: Config, on_cpu: bool, model_json: Mapping[str, Any]) -> EngineArguments:
    """For vLLM 0.8.5's V0 engine.

    Raises:
        ConfigError: an argument asks for something that this engine cannot do.
    """
    merged = merge_engine_args(config.rollout)
    for name, only in V0_ALWAYS.items():
        value = merged.pop(name)
        if value not in (None, only):
            why = "is nothing that vLLM 0.8.5's V0 engine can do"
            raise refused(f"{KWARGS_KEY}.{name}", value, why, f"leave it out (there it is always {only})")
    derived = {name: value for name, value in derived_args(config).items() if name not in V0_DROPPED}
    derived |= {
        "worker_extension_cls": "rollout.engines.v0_085.worker.WorkerV0",
        "max_logprobs": model_json["vocab_size"],
        # Otherwise a step hands out the tokens of the step before it, across the boundary of an update.
        "disable_async_output_proc": True,
        "enforce_eager": on_cpu,
    }
    if on_cpu:
        derived |= whole_prompts(config)
    return _split(derived | merged, rope_overrides(model_json, config.model.path))


def _split(merged: dict[str, Any], overrides: dict[str, Any]) -> EngineArguments:
    """Take the head's type out of the model's overrides, where these versions do not look for it."""
    overrides = overrides | dict(merged.pop("hf_overrides", None) or {})
    head_dtype = overrides.pop("head_dtype", None)
    args = {name: value for name, value in merged.items() if value is not None}
    if overrides:
        args["hf_overrides"] = overrides
    return EngineArguments(args, float32_head=head_dtype == "float32")


def require_known(args: dict[str, Any], engine_args_class: Any, engine: str) -> None:
    """Refuse an argument that this version of vLLM does not have.

    Raises:
        ConfigError: names the argument.
    """
    known = {f.name for f in fields(engine_args_class)}
    for name in args:
        if name not in known:
            raise refused(f"{KWARGS_KEY}.{name}", args[name], f"is not an argument of {engine}", "leave it out")
