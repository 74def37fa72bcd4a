"""Who is which rank in the NCCL group that carries the weights."""

from rollout.types import TransferPlace


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
