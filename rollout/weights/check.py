"""Proof that the weights in the model are the weights that were sent.

Every tensor sent must have a place in the model and every parameter of the model must have been sent. Plain
parameters are compared by value. Where the engine multiplies with a repacked copy (linear layers and the lm_head
on CPUs), that copy is what counts, and it is compared by what it computes: one-hot rows give back columns of the
matrix exactly, and random rows must agree with the sent matrix within rounding.

Which part of a published tensor one tensor-parallel rank of vLLM holds.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from rollout.errors import WeightMismatch


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


ALL_COLUMNS_UP_TO = 128  # smaller matrices are compared whole
NUM_SAMPLED_COLUMNS = 64  # of larger ones, other columns at every version
NUM_RANDOM_ROWS = 16

# Rounding of a dot product relative to Σ|x||w|: accumulation in fp32, and the result's own type.
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-10}


def plan_sources(
    parameters: Sequence[str],
    sent: Sequence[str],
    packed: Mapping[str, Sequence[str]],
    aliases: Mapping[str, str],
    rename: Callable[[str], str | None] = lambda name: name,
) -> dict[str, tuple[str, ...]]:
    """Which sent tensors make up each parameter, in the order they are stacked along dimension 0.

    Args:
        parameters: names in the engine's model, tied ones included.
        sent: names as published.
        packed: fused module → the modules it fuses, for instance qkv_proj → q_proj, k_proj, v_proj.
        aliases: parameter → another name of the very same parameter (tied embeddings).
        rename: published module name → the engine's module name.

    Raises:
        WeightMismatch: a parameter without a source, or a sent tensor without a place.
    """
    by_engine_name = {rename(name): name for name in sent}
    sources: dict[str, tuple[str, ...]] = {}
    uncovered = []
    for parameter in parameters:
        names = _constituents(parameter, packed)
        if not all(name in by_engine_name for name in names) and parameter in aliases:
            names = _constituents(aliases[parameter], packed)
        if all(name in by_engine_name for name in names):
            sources[parameter] = tuple(by_engine_name[name] for name in names)
        else:
            uncovered.append(parameter)
    used = {name for names in sources.values() for name in names}
    unplaced = [name for name in sent if name not in used]
    if uncovered or unplaced:
        raise WeightMismatch(
            f"parameters that were not sent: {uncovered or 'none'}; tensors without a place: {unplaced or 'none'}"
        )
    return sources


def _constituents(parameter: str, packed: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    module, _, leaf = parameter.rpartition(".")
    prefix, _, last = module.rpartition(".")
    if last not in packed:
        return (parameter,)
    return tuple(f"{prefix}.{part}.{leaf}" if prefix else f"{part}.{leaf}" for part in packed[last])


def compare_values(parameter: torch.Tensor, expected: torch.Tensor) -> str | None:
    """What differs between a plain parameter and what was sent, or None. Extra rows pad the vocabulary."""
    rows = expected.shape[0] if expected.ndim else 0
    if parameter.ndim != expected.ndim or parameter.shape[1:] != expected.shape[1:] or parameter.shape[:1] < (rows,):
        return f"shape {tuple(parameter.shape)} holds what was sent as {tuple(expected.shape)}"
    held = parameter[:rows] if expected.ndim else parameter
    wanted = expected.to(device=parameter.device, dtype=parameter.dtype)
    if not torch.equal(held, wanted):
        return f"{int((held != wanted).sum())} of {held.numel()} values differ from what was sent"
    return None


def compare_function(
    apply: Callable[[torch.Tensor], torch.Tensor],
    shape: tuple[int, int],
    expected: torch.Tensor,
    dtype: torch.dtype,
    seed: int,
) -> str | None:
    """What differs between x ↦ apply(x) and x ↦ x @ expectedᵀ, or None.

    Args:
        apply: the layer without bias, [M, K] of `dtype` → [M, N]; extra output columns pad the vocabulary.
        shape: (N, K) that the layer was built for; its kernel reads beyond its memory when given other input.
        expected: [N, K] as sent.
        dtype: type of the layer's input; decides the tolerance.
        seed: chooses columns and random rows; every version brings others.
    """
    num_rows, num_columns = expected.shape
    if num_columns != shape[1] or num_rows > shape[0]:
        return f"a layer of shape {shape} holds what was sent as {tuple(expected.shape)}"
    generator = torch.Generator().manual_seed(seed)
    columns = torch.arange(num_columns)
    if num_columns > ALL_COLUMNS_UP_TO:
        columns = torch.randperm(num_columns, generator=generator)[:NUM_SAMPLED_COLUMNS]
    one_hot = F.one_hot(columns, num_columns).to(dtype)
    random = torch.randn(NUM_RANDOM_ROWS, num_columns, generator=generator).to(dtype)
    result = apply(torch.cat([one_hot, random]).to(expected.device))[:, :num_rows].float()

    weight = expected.to(dtype).float()
    exact = result[: len(columns)].T
    if not torch.equal(exact, weight[:, columns]):
        num_different = int((exact != weight[:, columns]).sum())
        return f"{num_different} of {exact.numel()} repacked values differ from what was sent"
    x = random.to(expected.device).float()
    bound = TOLERANCE[dtype] * (x.abs() @ weight.abs().T) + torch.finfo(torch.float32).tiny
    worst = float(((result[len(columns) :] - x @ weight.T).abs() / bound).max())
    if not worst <= 1:
        return f"what the layer computes is off by {worst:.3g} times the tolerance"
    return None
