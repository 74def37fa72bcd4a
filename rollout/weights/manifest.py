"""Published weights as they arrive: bucket files held against the manifest before anything is loaded."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import torch
from safetensors import safe_open

from exchange.types import TensorMeta
from rollout.errors import WeightMismatch


def tensor_sha256(tensor: torch.Tensor) -> str:
    """Hex sha256 of the tensor's bytes in row-major order."""
    flat = tensor.detach().contiguous().cpu().reshape(-1).view(torch.uint8)
    return hashlib.sha256(flat.numpy().data).hexdigest()


def read_buckets(paths: Iterable[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors of safetensors files, memory-mapped: nothing is read before it is used."""
    for path in paths:
        with safe_open(path, framework="pt") as bucket:
            for name in bucket.keys():  # noqa: SIM118 - not a dict
                yield name, bucket.get_tensor(name)


def check_tensor(name: str, tensor: torch.Tensor, meta: TensorMeta) -> str | None:
    """What is wrong with a received tensor, or None."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype != meta.dtype.removeprefix("torch."):
        return f"{name}: dtype {dtype}, published as {meta.dtype}"
    if tuple(tensor.shape) != tuple(meta.shape):
        return f"{name}: shape {tuple(tensor.shape)}, published as {tuple(meta.shape)}"
    if tensor_sha256(tensor) != meta.sha256:
        return f"{name}: bytes differ from what was published"
    return None


def checked_tensors(
    received: Iterable[tuple[str, torch.Tensor]], manifest: Sequence[TensorMeta]
) -> dict[str, torch.Tensor]:
    """All received tensors by name, each equal to its entry in the manifest.

    Raises:
        WeightMismatch: a tensor is missing, unannounced, sent twice, or differs in dtype, shape or bytes.
    """
    expected = {meta.name: meta for meta in manifest}
    tensors: dict[str, torch.Tensor] = {}
    problems: list[str] = []
    for name, tensor in received:
        if name in tensors:
            problems.append(f"{name}: received twice")
        elif name not in expected:
            problems.append(f"{name}: not in the manifest")
        elif problem := check_tensor(name, tensor, expected[name]):
            problems.append(problem)
        tensors[name] = tensor
    problems += [f"{name}: in the manifest, never received" for name in expected if name not in tensors]
    if problems:
        raise WeightMismatch("; ".join(problems))
    return tensors
