"""Who is which rank in the NCCL group that carries the weights.

What vLLM's receivers need to know of a transfer, as plain values that cross processes.
"""

import dataclasses
from typing import Any

from exchange.types import TransferPlace, WeightUpdate

NUM_BUFFERS = 2  # one is filled while the other is on the wire


def join_info(place: TransferPlace) -> dict[str, Any]:
    """The fields of vLLM's NCCLWeightTransferInitInfo."""
    return {
        "master_address": place.address,
        "master_port": place.port,
        "rank_offset": place.rank_offset,
        "world_size": place.world_size,
        "packed": True,
        "packed_buffer_size_bytes": place.buffer_bytes,
        "packed_num_buffers": NUM_BUFFERS,
    }


def update_info(update: WeightUpdate) -> dict[str, Any]:
    """The fields of `NcclUpdate` for a broadcast, else of `SharedMemoryUpdate`."""
    tensors = update.tensors
    if update.transfer is not None:
        return {
            "names": [t.name for t in tensors],
            "dtype_names": [t.dtype for t in tensors],
            "shapes": [list(t.shape) for t in tensors],
            "sha256": [t.sha256 for t in tensors],
        }
    return {
        "buckets": list(update.buckets),
        "tensors": [dataclasses.asdict(t) | {"shape": list(t.shape)} for t in tensors],
    }


def transfer_places(
    group: int, num_workers: int, tensor_parallel_size: int, address: str, port: int, buffer_bytes: int
) -> tuple[TransferPlace, ...]:
    """The workers' places, in order: rank 0 is trainer rank 0, then each worker's `tensor_parallel_size` GPUs."""
    size = tensor_parallel_size
    world_size = 1 + num_workers * size
    return tuple(
        TransferPlace(group, address, port, 1 + worker * size, world_size, buffer_bytes)
        for worker in range(num_workers)
    )
