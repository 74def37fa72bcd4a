"""The engine arguments that make sampler and trainer agree, and which of the user's may differ from them."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from configs.checks.engines import NATIVE_ENGINE
from configs.errors import ConfigError, refused
from configs.nearest import nearest
from configs.rollout_schema import RolloutConfig

KWARGS_KEY = "rollout.vllm_config.vllm_kwargs"

PINNED_ENGINE_ARGS: dict[str, Any] = {
    "logprobs_mode": "processed_logprobs",  # of the distribution that was sampled from, temperature applied
    "enable_prefix_caching": False,  # a hit could reuse keys and values of older weights
    "async_scheduling": False,  # an update must fall between two whole engine steps
    "disable_cascade_attn": True,  # its kernel depends on what else is in the batch
    "hf_overrides": {"head_dtype": "float32"},  # as the trainer's lm_head
    "generation_config": "vllm",  # sampling defaults come from us, not from the model's folder
}


REMOVED_ENGINE_ARGS: dict[str, tuple[str, ...]] = {NATIVE_ENGINE: ("disable_cascade_attn",)}
"""Pinned arguments that an engine has outgrown: vLLM 0.32 has no cascade attention, and warns of this argument."""


@dataclass(frozen=True)
class Agreement:
    """What an engine argument must be for both halves to compute the same probabilities."""

    holds: Callable[[Any], bool]
    why: str
    instead: str


def _is(value: Any) -> Callable[[Any], bool]:
    return lambda given: bool(given == value)


def _off(given: Any) -> bool:
    return given is None or given is False or given in ("", 0, {}, [])


def _only_fp32_head(given: Any) -> bool:
    return isinstance(given, Mapping) and set(given) <= {"head_dtype"} and given.get("head_dtype") in (None, "float32")


_SPECULATION = Agreement(_off, "returns draft-verified tokens whose logprobs are not the sampled ones", "leave it out")

AGREEMENT: dict[str, Agreement] = {
    "logprobs_mode": Agreement(
        _is("processed_logprobs"), "returns logprobs that ignore the temperature", "use processed_logprobs"
    ),
    "enable_prefix_caching": Agreement(_is(False), "reuses keys and values of older weights", "use false"),
    "async_scheduling": Agreement(_is(False), "lets a weight update fall inside an engine step", "use false"),
    "disable_cascade_attn": Agreement(
        _is(True), "lets a token's logprob depend on what else is in the batch", "use true"
    ),
    "hf_overrides": Agreement(
        _only_fp32_head, "changes the model in the engine only, while the trainer keeps it", "use {head_dtype: float32}"
    ),
    "generation_config": Agreement(
        _is("vllm"), "lets the model's folder change the sampling in the engine only", "use vllm"
    ),
    "override_generation_config": Agreement(
        _off, "changes the sampling in the engine only", "set rollout.sampling instead"
    ),
    "quantization": Agreement(_off, "rounds the weights in the engine only", "leave it out"),
    "quantization_config": Agreement(_off, "rounds the weights in the engine only", "leave it out"),
    "kv_cache_dtype": Agreement(_is("auto"), "rounds keys and values in the engine only", "use auto"),
    "kv_sharing_fast_prefill": Agreement(_off, "skips layers of the prefill", "leave it out"),
    "disable_sliding_window": Agreement(_off, "changes the attention in the engine only", "leave it out"),
    "speculative_config": _SPECULATION,
    "spec_method": _SPECULATION,
    "spec_model": _SPECULATION,
    "spec_tokens": _SPECULATION,
    "logits_processors": Agreement(_off, "changes the sampled distribution in the engine only", "leave it out"),
    "watermark_config": Agreement(_off, "changes the sampled distribution in the engine only", "leave it out"),
    "load_format": Agreement(lambda v: v != "dummy", "samples from random weights", "leave it out"),
    "enable_mamba_cache_stochastic_rounding": Agreement(_off, "rounds states in the engine only", "leave it out"),
}

RESERVED: dict[str, str] = {
    "model": "set model.path",
    "tokenizer": "set model.path, whose tokenizer serves both halves",
    "trust_remote_code": "set model.trust_remote_code",
    "tensor_parallel_size": "set rollout.tensor_parallel_size",
    "data_parallel_size": "set rollout.num_workers",
    "seed": "set run.seed",
    "weight_transfer_config": "set rollout.weight_sync.backend",
    "worker_extension_cls": "leave it out, the engine adapter sets it",
    "return_sampling_mask": "leave it out, it follows from rollout.sampling.top_p and top_k",
    "runner": "leave it out, only generation is trained",
    "convert": "leave it out, only generation is trained",
    "hf_token": "set the HF_TOKEN environment variable, which no file of the run records",
    "temperature": "set rollout.sampling.temperature",
    "top_p": "set rollout.sampling.top_p",
    "top_k": "set rollout.sampling.top_k",
    "max_tokens": "set rollout.sampling.max_new_tokens",
    "n": "set rollout.sampling.n_samples",
}


def underscored(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Engine arguments with underscores in their names; refuses one given in both spellings."""
    out: dict[str, Any] = {}
    for name, value in kwargs.items():
        key = str(name).removeprefix("--").replace("-", "_")
        if key in out:
            raise refused(f"{KWARGS_KEY}.{name}", value, "is given twice, with dashes and underscores", "keep one")
        out[key] = value
    return out


def disagreements(rollout: RolloutConfig) -> dict[str, Any]:
    """The user's engine arguments that break agreement, allowed or not; what results are labelled with."""
    given = underscored(rollout.vllm_config.vllm_kwargs)
    return {k: v for k, v in given.items() if k in AGREEMENT and not AGREEMENT[k].holds(v)}


def _refuse_broken(rollout: RolloutConfig) -> None:
    allowed = {name.replace("-", "_") for name in rollout.allow_disagreement}
    for name, value in disagreements(rollout).items():
        if name not in allowed:
            rule = AGREEMENT[name]
            remedy = f"{rule.instead}, or name it in rollout.allow_disagreement to accept the mismatch"
            raise refused(f"{KWARGS_KEY}.{name}", value, rule.why, remedy)


def _refuse_reserved(rollout: RolloutConfig) -> None:
    for name, value in underscored(rollout.vllm_config.vllm_kwargs).items():
        if name in RESERVED:
            raise refused(f"{KWARGS_KEY}.{name}", value, "is set elsewhere", RESERVED[name])


def _refuse_unknown_permission(rollout: RolloutConfig) -> None:
    known = [*AGREEMENT, "dtype"]
    for name in rollout.allow_disagreement:
        if name.replace("-", "_") not in known:
            close = nearest(name.replace("-", "_"), known)
            remedy = f"did you mean {close}?" if close else f"it can name {', '.join(known)}"
            message = f"rollout.allow_disagreement names {name}, which does not break agreement; {remedy}"
            raise ConfigError(f"{message.removesuffix('?')}{'?' if close else '.'}", "rollout.allow_disagreement")


def merge_engine_args(rollout: RolloutConfig) -> dict[str, Any]:
    """Engine arguments with underscores: the pinned ones, the user's over them.

    `hf_overrides` is merged by key, so that the fp32 head stays unless it is overridden itself. Without those that
    the engine has outgrown. Raises ConfigError for a key that breaks agreement and is not in
    `rollout.allow_disagreement`.
    """
    _refuse_reserved(rollout)
    _refuse_unknown_permission(rollout)
    _refuse_broken(rollout)
    merged = copy.deepcopy(PINNED_ENGINE_ARGS)
    for name, value in underscored(rollout.vllm_config.vllm_kwargs).items():
        pinned = merged.get(name)
        if isinstance(pinned, dict) and isinstance(value, Mapping):
            merged[name] = pinned | dict(value)
        else:
            merged[name] = copy.deepcopy(value)
    for name in REMOVED_ENGINE_ARGS.get(rollout.engine, ()):
        value = merged.pop(name)
        if value != PINNED_ENGINE_ARGS[name]:
            raise refused(f"{KWARGS_KEY}.{name}", value, f"has no effect on {rollout.engine}", "leave it out")
    return merged
