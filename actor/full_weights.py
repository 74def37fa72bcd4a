"""The whole weights of the policy, bucket by bucket, under their Hugging Face names.

This is the seam for every way of sending weights: a transport on GPUs takes the tensors from the
iterator and broadcasts them, the shared-memory one writes them to files. Sharded (ZeRO-3)
parameters are gathered for one bucket at a time, so peak extra memory is one bucket.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from actor.deepspeed_engine import gathered
from actor.lora import lora_layers, merged_weight

Bucket = list[tuple[str, torch.Tensor]]


def iter_full_weights(engine: Any, bucket_bytes: int) -> Iterator[Bucket]:
    """Buckets of (name, tensor) of at most `bucket_bytes`, or of one larger tensor. Collective.

    All ranks must exhaust the iterator together. A tensor is valid until the next bucket is
    requested. Adapters are merged into the weights they adapt; a tied lm_head comes once, as the embedding.
    """
    for entries in _buckets(_entries(engine.module.causal_lm), bucket_bytes):
        with gathered([p for _, parameters, _ in entries for p in parameters]):
            yield [(name, _whole(parameters[0], layer)) for name, parameters, layer in entries]


_Entry = tuple[str, list[nn.Parameter], Any]  # name, parameters that make the tensor, adapted layer or None


def _entries(causal_lm: nn.Module) -> Iterator[_Entry]:
    """Every published tensor of the model, with the parameters it is made of."""
    if not hasattr(causal_lm, "peft_config"):
        yield from ((name, [parameter], None) for name, parameter in causal_lm.named_parameters())
        return
    base = causal_lm.get_base_model()  # type: ignore[operator]
    layers = dict(lora_layers(base))
    for name, parameter in base.named_parameters():
        if ".lora_" in name:
            continue
        owner, _, leaf = name.rpartition(".base_layer.")
        if not owner:
            yield name, [parameter], None
        elif leaf == "weight":
            adapters = [p for n, p in layers[owner].named_parameters() if n.startswith(("lora_A", "lora_B"))]
            yield f"{owner}.{leaf}", [parameter, *adapters], layers[owner]
        else:
            yield f"{owner}.{leaf}", [parameter], None


def _buckets(entries: Iterator[_Entry], bucket_bytes: int) -> Iterator[list[_Entry]]:
    bucket: list[_Entry] = []
    size = 0
    for entry in entries:
        parameter = entry[1][0]
        nbytes = getattr(parameter, "ds_numel", parameter.numel()) * parameter.element_size()
        if bucket and size + nbytes > bucket_bytes:
            yield bucket
            bucket, size = [], 0
        bucket.append(entry)
        size += nbytes
    if bucket:
        yield bucket


@torch.no_grad()
def _whole(parameter: nn.Parameter, layer: Any) -> torch.Tensor:
    return parameter.data if layer is None else merged_weight(layer)
