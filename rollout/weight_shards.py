"""Which part of a published tensor one tensor-parallel rank of vLLM holds."""

from typing import Any

import torch


def local_shard(module: Any, part: int, tensor: torch.Tensor, rank: int, size: int) -> torch.Tensor:
    """The rank's rows or columns of `tensor`.

    Args:
        module: vLLM layer that holds the tensor.
        part: position of the tensor in a fused layer (0 q, 1 k, 2 v for attention), else 0.
        tensor: as published, unsharded.
        rank: tensor-parallel rank.
        size: number of tensor-parallel ranks.
    """
    if size == 1 or getattr(module, "tp_size", size) == 1:
        return tensor
    if hasattr(module, "shard_indices"):  # embeddings and the lm_head split the vocabulary
        indices = module.shard_indices
        return tensor[indices.org_vocab_start_index : indices.org_vocab_end_index]
    if hasattr(module, "input_size_per_partition") and module.input_size_per_partition != module.input_size:
        return tensor.chunk(size, dim=1)[rank] if tensor.ndim == 2 else tensor
    if hasattr(module, "output_size_per_partition") and module.output_size_per_partition != module.output_size:
        replicas = getattr(module, "num_kv_head_replicas", 1) if part in (1, 2) else 1
        return tensor.chunk(size // replicas, dim=0)[rank // replicas]
    return tensor
