"""Bytes of what the trainer writes, from the model's parameters, before any of it exists."""

import torch
from torch import nn

from actor.deepspeed_engine import zero_stage
from actor.lora import num_adapter_parameters
from configs.actor_schema import ActorConfig

_FLOAT32_BYTES = 4
_PER_TRAINED = 3 * _FLOAT32_BYTES  # master weight and AdamW's two moments


def policy_bytes(causal_lm: nn.Module, dtype: str) -> int:
    """Of the whole weights as they are published and saved: adapters merged, a tied lm_head once.

    Args:
        causal_lm: the model as transformers builds it; its weights may be on the meta device.
        dtype: `model.dtype`.
    """
    return _item_bytes(dtype) * _num_parameters(causal_lm)


def checkpoint_bytes(causal_lm: nn.Module, dtype: str, actor: ActorConfig) -> int:
    """Of one checkpoint: the policy, the trained parameters, what AdamW keeps, and the reference once it was reset."""
    policy = policy_bytes(causal_lm, dtype)
    trained = num_adapter_parameters(causal_lm, actor.lora) if actor.lora.rank else _num_parameters(causal_lm)
    copies = actor.num_workers if zero_stage(actor, dtype) == 0 else 1  # unsharded, every rank writes its own
    reference = policy if actor.kl.coef and actor.kl.reset_ref_every else 0
    return policy + _item_bytes(dtype) * trained + copies * _PER_TRAINED * trained + reference


def _num_parameters(causal_lm: nn.Module) -> int:
    return sum(p.numel() for p in causal_lm.parameters())


def _item_bytes(dtype: str) -> int:
    size: int = getattr(torch, dtype).itemsize
    return size
