"""Does the model's config.json ask for something that one of the two halves does not compute?"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from transformers import AutoConfig, PretrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from actor.model import check_computable
from configs.errors import refused
from configs.schema import Config
from pipeline.preflight.model_folder import check_head_size
from rollout.data.hub import use_cache_if_unreachable
from rollout.engines.v1_current.arguments import max_model_len

LENGTH_DEPENDENT_ROPE = ("longrope", "dynamic")
"""RoPE whose frequencies change where a sequence outgrows the original context, in each half at another moment."""


def check_architecture(config: Config) -> PretrainedConfig | None:
    """Refuse what config.json tells, of a local folder or a hub model, and return it; None where it cannot be fetched.

    Raises:
        ConfigError: an architecture, a logits transform, a stop token or a length that is not computed alike.
    """
    model = _read(config)
    if model is None:
        return None
    if type(model) not in MODEL_FOR_CAUSAL_LM_MAPPING and not getattr(model, "auto_map", None):
        raise refused(
            "model.path",
            config.model.path,
            f"has model_type {model.model_type}, of which transformers makes no causal language model",
            "choose a decoder-only text model",
        )
    check_head_size(config, model.to_dict())  # once more, with what config.json leaves to the class
    check_computable(config.model.path, model, config.actor.attn_implementation)
    text = model.get_text_config()
    _check_stop_tokens(config, getattr(text, "vocab_size", None))
    _check_rope(config, text)
    return model


def _read(config: Config) -> PretrainedConfig | None:
    path = config.model.path
    if not Path(path).is_dir():
        use_cache_if_unreachable()
    try:
        model: PretrainedConfig = AutoConfig.from_pretrained(path, trust_remote_code=config.model.trust_remote_code)
        return model
    except OSError:
        return None  # loading the tokenizer says what is wrong with name or network
    except Exception as error:
        if "trust_remote_code" in str(error):
            why, remedy = "comes with Python code of its own", "set model.trust_remote_code=true if you trust that code"
        else:
            reason = " ".join(str(error).split())[:100]
            why = f"has a config.json that transformers cannot use ({reason})"
            remedy = "choose a model whose model_type transformers knows"
        raise refused("model.path", path, why, remedy) from error


def _check_stop_tokens(config: Config, vocab_size: int | None) -> None:
    ids = config.rollout.sampling.stop_token_ids
    if vocab_size is not None and ids and max(ids) >= vocab_size:
        raise refused(
            "rollout.sampling.stop_token_ids",
            ids,
            f"names token {max(ids)}, but the model has {vocab_size}",
            f"use ids below {vocab_size}",
        )


def _check_rope(config: Config, text: PretrainedConfig) -> None:
    longest = max_model_len(config)
    for rope in rope_parameters(text):
        kind = rope.get("rope_type")
        told = (
            rope.get("original_max_position_embeddings"),
            getattr(text, "original_max_position_embeddings", None),
            getattr(text, "max_position_embeddings", None),
        )
        original = min((length for length in told if length), default=longest)
        if kind in LENGTH_DEPENDENT_ROPE and longest > original:
            raise refused(
                "rollout.sampling.max_new_tokens",
                config.rollout.sampling.max_new_tokens,
                f"allows sequences of {longest} tokens, but the model's {kind} RoPE changes its frequencies beyond "
                f"{original}, in trainer and engine at different moments",
                f"lower it or dataset.max_prompt_tokens so that their sum is at most {original}",
            )


def rope_parameters(text: PretrainedConfig) -> Iterator[Mapping[str, Any]]:
    """RoPE settings of a text config: one set, or one for each kind of layer; none without RoPE."""
    found = getattr(text, "rope_parameters", None) or {}
    if "rope_type" in found:
        yield found
    else:
        yield from (each for each in found.values() if isinstance(each, Mapping))
