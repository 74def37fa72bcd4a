"""What both engines' worker processes do with an update: check the manifest, and the model after loading."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from exchange.types import TensorMeta, WeightUpdate
from rollout.errors import WeightMismatch
from rollout.weights.manifest import checked_tensors, read_buckets
from rollout.weights.worker_extension import check_model


def plain_update(update: WeightUpdate) -> tuple[list[str], list[dict[str, Any]]]:
    """Bucket paths and manifest as plain values that cross processes."""
    tensors = [{"name": t.name, "dtype": t.dtype, "shape": list(t.shape), "sha256": t.sha256} for t in update.tensors]
    return list(update.buckets), tensors


def read_update(buckets: Sequence[str], tensors: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    """The published tensors by name.

    Raises:
        WeightMismatch: the files do not hold what was published.
    """
    manifest = [TensorMeta(t["name"], t["dtype"], tuple(t["shape"]), t["sha256"]) for t in tensors]
    return checked_tensors(read_buckets(buckets), manifest)


@torch.no_grad()
def check_loaded(model: torch.nn.Module, sent: dict[str, torch.Tensor], version: int, worker: Any) -> int:
    """Compare the model with what was sent; returns how many tensors were compared.

    Raises:
        WeightMismatch: with every tensor that differs.
    """
    if not sent:
        raise WeightMismatch("no weights have been received")
    problems = check_model(model, sent, version, worker.rank, worker.parallel_config.tensor_parallel_size)
    if problems:
        raise WeightMismatch("; ".join(f"{name}: {what}" for name, what in problems.items()))
    return len(sent)
