from types import SimpleNamespace

import pytest

from configs.errors import ConfigError
from configs.schema import Config
from rollout.engines.v1_current.arguments import (
    KVShape,
    cpu_kv_cache_bytes,
    engine_args,
    max_model_len,
    num_sequences,
    require_whole_prompts,
)

SHAPE = KVShape(num_layers=4, num_kv_heads=2, head_dim=32)


def config() -> Config:
    c = Config()
    c.model.path, c.model.dtype = "somewhere", "float32"
    c.rollout.max_concurrent_rollouts, c.rollout.num_workers = 9, 2
    c.rollout.sampling.n_samples, c.rollout.sampling.max_new_tokens = 4, 100
    c.dataset.max_prompt_tokens = 28
    return c


def test_nothing_that_agreement_hangs_on_is_left_to_a_default():
    args = engine_args(config(), SHAPE)
    assert args["logprobs_mode"] == "processed_logprobs"
    assert args["enable_prefix_caching"] is False
    assert args["async_scheduling"] is False
    assert args["hf_overrides"] == {"head_dtype": "float32"}
    assert args["generation_config"] == "vllm"
    assert args["dtype"] == "float32"
    assert args["skip_tokenizer_init"] is True


def test_lengths_and_concurrency_follow_from_the_run():
    c = config()
    assert max_model_len(c) == 128
    c.eval.max_new_tokens = 200
    assert max_model_len(c) == 228
    assert num_sequences(c) == 5 * 4 + 1  # 9 groups over 2 workers, and one for the probe


def test_the_cache_holds_every_sequence_at_full_length():
    per_token = 2 * 4 * 2 * 32 * 4
    assert SHAPE.bytes_per_token("float32") == per_token
    assert cpu_kv_cache_bytes(config(), SHAPE) == 22 * 128 * per_token


def test_cpus_skip_what_only_costs_there():
    args = engine_args(config(), SHAPE)
    assert args["enforce_eager"] is True and args["kv_cache_memory_bytes"] > 0
    assert "enforce_eager" not in engine_args(config(), None)


def test_user_keys_come_last_and_breaking_ones_are_refused():
    c = config()
    c.rollout.vllm_config.vllm_kwargs = {"max-num-seqs": 7}
    assert engine_args(c, SHAPE)["max_num_seqs"] == 7
    c.rollout.vllm_config.vllm_kwargs = {"enable-prefix-caching": True}
    with pytest.raises(ConfigError, match=r"enable.prefix.caching"):
        engine_args(c, SHAPE)


def built(**scheduler: object) -> SimpleNamespace:
    """An engine's own config, as it reads after vLLM built it."""
    whole = {"enable_chunked_prefill": False, "max_num_batched_tokens": 4096, "long_prefill_token_threshold": 0}
    return SimpleNamespace(
        scheduler_config=SimpleNamespace(**whole | scheduler), model_config=SimpleNamespace(max_model_len=4096)
    )


def test_an_engine_that_keeps_prompts_whole_passes():
    require_whole_prompts(built())


@pytest.mark.parametrize(
    ("scheduler", "sentence"),
    [
        ({"enable_chunked_prefill": True}, "enable_chunked_prefill=true lets the engine split a prompt"),
        ({"chunked_prefill_enabled": True}, "enable_chunked_prefill=true lets the engine split a prompt"),
        ({"max_num_batched_tokens": 2048}, "max_num_batched_tokens=2048 lets .*; leave it out, or use 4096 or more"),
        ({"long_prefill_token_threshold": 64}, "long_prefill_token_threshold=64 lets the engine split a prompt"),
    ],
)
def test_an_engine_that_could_split_a_prompt_on_a_cpu_is_refused(scheduler, sentence):
    with pytest.raises(ConfigError, match=sentence):
        require_whole_prompts(built(**scheduler))
