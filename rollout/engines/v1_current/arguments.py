"""Engine arguments of vLLM 0.32 derived from the config: pinned, then derived from the run, then the user's."""

from dataclasses import dataclass
from typing import Any

from configs.checks.pinned import KWARGS_KEY, merge_engine_args
from configs.errors import refused
from configs.schema import Config

CPU_BLOCK_TOKENS = 128
CPU_BATCHED_TOKENS = 4096
CPU_KV_CACHE_LIMIT_BYTES = 2 << 30
MAX_SEQUENCES = 1024
WORKER_EXTENSION = "rollout.weights.worker_extension.WeightWorker"
BYTES_PER_VALUE = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class KVShape:
    """What the size of a token's keys and values depends on."""

    num_layers: int
    num_kv_heads: int
    head_dim: int

    def bytes_per_token(self, dtype: str) -> int:
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * BYTES_PER_VALUE[dtype]


def kv_shape(hf_config: Any) -> KVShape:
    """From a Hugging Face text config."""
    heads = hf_config.num_attention_heads
    return KVShape(
        num_layers=hf_config.num_hidden_layers,
        num_kv_heads=getattr(hf_config, "num_key_value_heads", None) or heads,
        head_dim=getattr(hf_config, "head_dim", None) or hf_config.hidden_size // heads,
    )


def num_sequences(config: Config) -> int:
    """Requests one engine runs at a time: its share of the rollouts, and one kept free for scoring."""
    rollout = config.rollout
    groups = -(-rollout.max_concurrent_rollouts // rollout.num_workers)
    return min(groups * rollout.sampling.n_samples, MAX_SEQUENCES) + 1


def max_model_len(config: Config) -> int:
    """Tokens of the longest prompt with the longest completion, in training or evaluation."""
    new = max(config.rollout.sampling.max_new_tokens, config.eval.max_new_tokens or 0)
    return max(config.dataset.max_prompt_tokens + new, config.rollout.weight_sync.probe_tokens + 1)


def cpu_kv_cache_bytes(config: Config, shape: KVShape) -> int:
    """Room for every sequence at full length, in whole blocks, up to a limit; with less, vLLM preempts."""
    blocks = -(-max_model_len(config) // CPU_BLOCK_TOKENS)
    per_sequence = blocks * CPU_BLOCK_TOKENS * shape.bytes_per_token(config.model.dtype)
    wanted = (num_sequences(config) + 1) * per_sequence
    return max(min(wanted, CPU_KV_CACHE_LIMIT_BYTES), 2 * per_sequence)


def derived_args(config: Config) -> dict[str, Any]:
    """Arguments that follow from the rest of the config, on any device."""
    return {
        "model": config.model.path,
        "trust_remote_code": config.model.trust_remote_code,
        "dtype": config.model.dtype,
        "seed": config.run.seed,
        "tensor_parallel_size": config.rollout.tensor_parallel_size,
        "max_model_len": max_model_len(config),
        "max_num_seqs": num_sequences(config),
        "max_logprobs": -1,  # the kept set of top-p is read off the logprobs of the whole vocabulary
        "skip_tokenizer_init": True,  # token ids in and out
        "scheduling_policy": "priority",  # the probe goes before waiting requests
        "disable_log_stats": True,
        "enable_log_requests": False,
        "worker_extension_cls": WORKER_EXTENSION,
    }


def cpu_args(config: Config, shape: KVShape) -> dict[str, Any]:
    """Arguments for CPUs: nothing to compile, and a cache of known size makes vLLM skip its warm-up."""
    return {
        "enforce_eager": True,
        "kv_cache_memory_bytes": cpu_kv_cache_bytes(config, shape),
        "block_size": CPU_BLOCK_TOKENS,
    } | whole_prompts(config)


def whole_prompts(config: Config) -> dict[str, Any]:
    """Arguments, known to every engine version, under which no prompt is split over several steps on a CPU.

    After a part of a prompt vLLM rewinds the request's own random generator, which a CPU generator does not support:
    the engine dies.
    """
    return {
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(CPU_BATCHED_TOKENS, max_model_len(config)),
    }


def require_whole_prompts(vllm_config: Any) -> None:
    """Check in the engine's own config, as it was built, that no prompt can be split; for engines on a CPU.

    Raises:
        ConfigError: a user's engine argument, or the engine itself, allows it.
    """
    scheduler, longest = vllm_config.scheduler_config, vllm_config.model_config.max_model_len
    chunked = getattr(scheduler, "enable_chunked_prefill", None) or getattr(scheduler, "chunked_prefill_enabled", False)
    threshold = getattr(scheduler, "long_prefill_token_threshold", 0)
    why = "lets the engine split a prompt, after which a request's seed fails on a CPU"
    if chunked:
        raise refused(f"{KWARGS_KEY}.enable_chunked_prefill", True, why, "leave it out")
    if scheduler.max_num_batched_tokens < longest:
        key, remedy = f"{KWARGS_KEY}.max_num_batched_tokens", f"leave it out, or use {longest} or more"
        raise refused(key, scheduler.max_num_batched_tokens, why, remedy)
    if threshold:
        raise refused(f"{KWARGS_KEY}.long_prefill_token_threshold", threshold, why, "leave it out")


def engine_args(config: Config, shape: KVShape | None) -> dict[str, Any]:
    """All engine arguments but those that are vLLM objects.

    Args:
        config: the run.
        shape: of the model's keys and values, on CPUs; None on GPUs.

    Raises:
        ConfigError: a user key that breaks agreement.
    """
    derived = derived_args(config) | (cpu_args(config, shape) if shape is not None else {})
    return derived | merge_engine_args(config.rollout)
