"""Publishing weights: bucket files where they travel by files, the sha256 of each tensor, and a probe."""

import hashlib
from collections.abc import Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from actor.full_weights import iter_full_weights
from actor.tensor_files import save_tensors
from actor.trainer import Trainer


def publish(
    trainer: Trainer, version: int, directory: str | None, probe_token_ids: tuple[int, ...], bucket_bytes: int
) -> dict[str, Any]:
    """Write the whole weights under `directory` (rank 0) and score the probe with them. Collective.

    With no directory nothing is written: the weights are only described, for a transport that sends them itself.

    Returns the fields of a weight update: version, buckets (paths), tensors (name, dtype, shape,
    sha256), probe_token_ids, probe_logprobs (at temperature 1). `buckets` and `tensors` are empty
    on the other ranks. The files are complete when this returns. Raises OSError when they cannot
    be written.
    """
    writes = dist.get_rank() == 0
    buckets: list[str] = []
    tensors: list[dict[str, Any]] = []
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for index, bucket in enumerate(iter_full_weights(trainer.engine, bucket_bytes)):
            if writes:
                on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in bucket}
                described = _describe(on_cpu, pool)
                if directory is not None:
                    path = Path(directory) / f"bucket-{index:05d}.safetensors"
                    save_tensors(on_cpu, path)
                    buckets.append(str(path))
                tensors += described  # waits for the hashes: the bucket's memory is used again for the next one
    return {
        "version": version,
        "buckets": buckets,
        "tensors": tensors,
        "probe_token_ids": tuple(probe_token_ids),
        "probe_logprobs": tuple(trainer.probe(tuple(probe_token_ids))),
    }


def _describe(on_cpu: dict[str, torch.Tensor], pool: Executor) -> Iterable[dict[str, Any]]:
    """In the same order; hashing has begun, and lets other threads compute."""
    hashes = pool.map(tensor_sha256, on_cpu.values())
    return (
        {
            "name": name,
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": tuple(tensor.shape),
            "sha256": sha256,
        }
        for (name, tensor), sha256 in zip(on_cpu.items(), hashes, strict=True)
    )


def tensor_sha256(tensor: torch.Tensor) -> str:
    """Hex digest of a contiguous CPU tensor's bytes, as they lie in memory and in a safetensors file."""
    return hashlib.sha256(tensor.reshape(-1).view(torch.uint8).numpy().data).hexdigest()
