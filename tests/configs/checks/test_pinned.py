"""What the engine is started with, and what it may not be started with."""

import pytest

from configs.checks.engine_arguments import ENGINE_ARGUMENTS
from configs.checks.pinned import AGREEMENT, PINNED_ENGINE_ARGS, disagreements, merge_engine_args
from configs.errors import ConfigError
from configs.rollout_schema import RolloutConfig

PINNED = {
    "logprobs_mode": "processed_logprobs",
    "enable_prefix_caching": False,
    "async_scheduling": False,
    "disable_cascade_attn": True,
    "hf_overrides": {"head_dtype": "float32"},
    "generation_config": "vllm",
}


CURRENT, EARLIER = "vllm-v1", "vllm-0.18.1-v1"


def rollout(allow: tuple[str, ...] = (), engine: str = EARLIER, **kwargs: object) -> RolloutConfig:
    config = RolloutConfig(allow_disagreement=list(allow), engine=engine)
    config.vllm_config.vllm_kwargs = dict(kwargs)
    return config


def test_without_user_arguments_the_pinned_ones_are_used() -> None:
    assert merge_engine_args(rollout()) == PINNED


@pytest.mark.parametrize("kwargs", [{}, {"disable-cascade-attn": True}])
def test_an_engine_without_cascade_attention_is_not_told_to_disable_it(kwargs: dict[str, object]) -> None:
    config = rollout(engine=CURRENT)
    config.vllm_config.vllm_kwargs = kwargs
    assert merge_engine_args(config) == {k: v for k, v in PINNED.items() if k != "disable_cascade_attn"}


def test_what_has_no_effect_on_an_engine_is_refused_even_where_it_is_allowed() -> None:
    config = rollout(("disable_cascade_attn",), CURRENT, disable_cascade_attn=False)
    with pytest.raises(ConfigError, match="disable_cascade_attn=false has no effect on vllm-v1; leave it out"):
        merge_engine_args(config)


def test_dashes_become_underscores_and_the_users_arguments_win() -> None:
    config = rollout()
    config.vllm_config.vllm_kwargs = {"max-num-seqs": 8, "enable-prefix-caching": False}
    assert merge_engine_args(config) == PINNED | {"max_num_seqs": 8}


def test_an_allowed_override_keeps_the_fp32_head_unless_it_names_it() -> None:
    kept = merge_engine_args(rollout(("hf_overrides",), hf_overrides={"rope_theta": 1.0}))
    assert kept["hf_overrides"] == {"head_dtype": "float32", "rope_theta": 1.0}
    changed = merge_engine_args(rollout(("hf-overrides",), hf_overrides={"head_dtype": "bfloat16"}))
    assert changed["hf_overrides"] == {"head_dtype": "bfloat16"}


def test_disagreements_lists_what_differs_even_where_it_is_allowed() -> None:
    config = rollout(("enable_prefix_caching",), enable_prefix_caching=True, async_scheduling=False)
    assert disagreements(config) == {"enable_prefix_caching": True}
    assert merge_engine_args(config)["enable_prefix_caching"] is True


@pytest.mark.parametrize("name", [*PINNED, "speculative_config", "quantization", "kv_cache_dtype"])
def test_what_breaks_agreement_is_refused_unless_allowed(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"vllm_kwargs.{name}=other .* or name it in rollout.allow_disagreement"):
        merge_engine_args(rollout(**{name: "other"}))
    assert merge_engine_args(rollout((name,), **{name: "other"}))[name] == "other"


def test_one_argument_in_two_spellings_is_refused() -> None:
    config = rollout()
    config.vllm_config.vllm_kwargs = {"max-num-seqs": 8, "max_num_seqs": 9}
    with pytest.raises(ConfigError, match="given twice"):
        merge_engine_args(config)


def test_the_pinned_arguments_are_not_shared() -> None:
    merge_engine_args(rollout())["hf_overrides"]["head_dtype"] = "bfloat16"
    assert PINNED_ENGINE_ARGS == PINNED


def test_every_pinned_argument_holds_its_own_rule_and_is_an_engine_argument() -> None:
    assert all(AGREEMENT[name].holds(value) for name, value in PINNED_ENGINE_ARGS.items())
    assert set(AGREEMENT) <= set(ENGINE_ARGUMENTS)
