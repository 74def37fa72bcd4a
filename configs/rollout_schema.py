"""Config of the sampler: workers, staleness bound, sampling and the pinned engine."""

from dataclasses import dataclass, field
from typing import Any, Literal

from configs.fields import doc


@dataclass
class SamplingConfig:
    n_samples: int = doc(8, "Completions of one prompt: the group size G.")
    temperature: float = doc(1.0, "Sampling temperature, applied on both sides; must be > 0.")
    top_p: float = doc(1.0, "Nucleus sampling; below 1 the trainer renormalizes over the engine's kept set.")
    top_k: int = doc(0, "Keep the k likeliest tokens; 0 keeps all; the trainer renormalizes as for top_p.")
    max_new_tokens: int = doc(256, "Length limit of a completion.")
    stop_token_ids: list[int] = doc([], "Token ids that end a completion besides end-of-sequence.")


@dataclass
class VllmConfig:
    use_v1: bool = doc(True, "Must agree with rollout.engine: true for V1 engines, false for the V0 one.")
    vllm_kwargs: dict[str, Any] = doc({}, "Engine arguments (dashes or underscores) on top of the pinned ones.")


@dataclass
class WeightSyncConfig:
    backend: Literal["auto", "shared_memory", "nccl"] = doc(
        "auto",
        "auto takes nccl where every trainer rank and rollout worker has a GPU of its own (rollout.engine=vllm-v1), "
        "else shared memory (one machine).",
    )
    timeout_s: float = doc(300.0, "Longest a worker may take for one update before it is restarted.")
    bucket_mib: int = doc(256, "Weights are gathered and sent in buckets of about this size.")
    probe_tokens: int = doc(32, "Tokens of the fixed probe that engine and trainer both score after an update.")
    probe_limit: float | None = doc(
        None, "Largest mean |difference| the probe may show; null means the limit for model.dtype."
    )
    pause_mode: Literal["keep", "wait", "abort", "none"] = doc(
        "keep", "Requests in flight at an update: keep them, wait for them, abort and resume them, or do not pause."
    )
    clear_cache: bool = doc(False, "Clear the engine's cache at each update.")


@dataclass
class RolloutConfig:
    num_workers: int = doc(1, "Rollout workers (engines).")
    tensor_parallel_size: int = doc(1, "GPUs of one engine.")
    engine: str = doc("vllm-v1", "Engine adapter: vllm-v1, vllm-0.18.1-v1 or vllm-0.8.5-v0.")
    max_head_offpolicyness: int = doc(1, "Staleness bound η in steps; 0 is synchronous.")
    max_concurrent_rollouts: int = doc(64, "Groups in flight at most, over all workers.")
    episode: str | None = doc(
        None,
        "Episode of several turns, as module:function or file.py:function; null samples one completion.",
    )
    request_timeout_s: float = doc(600.0, "Longest a group may take before its worker counts as hung.")
    max_worker_restarts: int = doc(3, "A worker that failed more often is not restarted; the others continue.")
    startup_timeout_s: float = doc(600.0, "Longest an engine may take to start.")
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    vllm_config: VllmConfig = field(default_factory=VllmConfig)
    weight_sync: WeightSyncConfig = field(default_factory=WeightSyncConfig)
    allow_disagreement: list[str] = doc(
        [], "Engine arguments that may differ from the pinned ones although they break agreement; logged with results."
    )
