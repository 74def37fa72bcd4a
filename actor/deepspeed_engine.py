"""DeepSpeed around the policy: data parallelism, ZeRO sharding, float32 master weights, AdamW."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from actor.model import PolicyNetwork
from configs.actor_schema import ActorConfig

# Upper bounds of communication buffers, in elements.
_REDUCE_BUCKET = 50_000_000
# Parameters up to this many times the hidden size (norms, biases) stay whole on every rank in stage 3.
_PERSISTENT_ROWS = 10


def zero_stage(actor: ActorConfig, dtype: str) -> int:
    """The stage that runs: bfloat16 needs sharded float32 master weights, so stage 0 becomes stage 1 there."""
    stage = actor.deepspeed.zero_stage
    return 1 if stage == 0 and dtype == "bfloat16" else stage


def deepspeed_config(actor: ActorConfig, dtype: str, num_parameters: int, hidden_size: int) -> dict[str, Any]:
    """DeepSpeed's own configuration. Micro-batches are summed by the caller, so accumulation is 1 here."""
    stage = zero_stage(actor, dtype)
    bucket = min(num_parameters, _REDUCE_BUCKET)
    zero: dict[str, Any] = {
        "stage": stage,
        "reduce_bucket_size": bucket,
        "allgather_bucket_size": bucket,
        "overlap_comm": False,
    }
    if stage == 3:
        zero |= {
            "stage3_prefetch_bucket_size": bucket,
            "stage3_param_persistence_threshold": _PERSISTENT_ROWS * hidden_size,
        }
    if actor.deepspeed.offload_optimizer and stage > 0:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": torch.cuda.is_available()}
    config: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        # Stage 0 clips in `actor.optimizer_step`, where the norm is computed anyway.
        "gradient_clipping": actor.optimizer.max_grad_norm if stage > 0 else 0.0,
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": False,
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 1 << 62,
    }
    if dtype == "bfloat16":
        config["bf16"] = {"enabled": True, "check_grad_overflow": True}
        config["data_types"] = {"grad_accum_dtype": "fp32"}
    return config


def start_engine(policy: PolicyNetwork, actor: ActorConfig, dtype: str) -> Any:
    """A DeepSpeed engine that owns `policy`; the process group must have been joined."""
    import deepspeed

    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    trainable = [p for p in policy.parameters() if p.requires_grad]
    o = actor.optimizer
    optimizer = torch.optim.AdamW(
        trainable, lr=o.lr, betas=(o.beta1, o.beta2), eps=o.eps, weight_decay=o.weight_decay, fused=True
    )
    num_parameters = sum(p.numel() for p in policy.parameters())
    hidden_size = policy.inner.config.get_text_config().hidden_size
    config = deepspeed_config(actor, dtype, num_parameters, hidden_size)
    engine, *_ = deepspeed.initialize(model=policy, optimizer=optimizer, config=config)
    return engine


def base_optimizer(engine: Any) -> torch.optim.Optimizer:
    """The AdamW beneath whatever ZeRO wraps around it."""
    wrapped = engine.optimizer
    return wrapped if isinstance(wrapped, torch.optim.AdamW) else wrapped.optimizer


def master_parameters(engine: Any) -> list[torch.Tensor]:
    """This rank's float32 tensors that AdamW updates, in a fixed order, whatever the ZeRO stage."""
    optimizer = engine.optimizer
    for name in ("fp32_partitioned_groups_flat", "single_partition_of_fp32_groups", "fp32_groups_flat_partition"):
        if hasattr(optimizer, name):
            return list(getattr(optimizer, name))
    return [p for group in optimizer.param_groups for p in group["params"]]


@contextmanager
def gathered(parameters: list[nn.Parameter], writer_rank: int | None = None) -> Iterator[None]:
    """The parameters whole on every rank while inside; what `writer_rank` writes reaches all. Collective."""
    if not any(hasattr(p, "ds_id") for p in parameters):
        yield
        return
    import deepspeed

    with deepspeed.zero.GatheredParameters(parameters, modifier_rank=writer_rank):
        yield
