"""The trainer ranks' process group: gloo on CPUs, nccl on GPUs, joined over TCP at an address of rank 0."""

import os
import socket
from datetime import timedelta

import torch
import torch.distributed as dist

LOOPBACK = "127.0.0.1"
LOOPBACK_INTERFACE = "lo"
JOIN_TIMEOUT = timedelta(minutes=10)


def prepare_environment(rank: int, world_size: int, master_addr: str, master_port: int) -> None:
    """Set what DeepSpeed reads from the environment. Must run before DeepSpeed is imported."""
    # A rank sees only its own GPU (Ray sets CUDA_VISIBLE_DEVICES), so its local rank is 0.
    local_rank = rank if torch.cuda.device_count() > 1 else 0
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(local_rank),
        "MASTER_ADDR": master_addr,
        "MASTER_PORT": str(master_port),
    }
    if not torch.cuda.is_available():
        os.environ["DS_ACCELERATOR"] = "cpu"
    # Between nodes the libraries choose the interface, unless the user has: the meeting point tells rank 0's only.
    if master_addr == LOOPBACK:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK_INTERFACE)


def open_meeting_point(address: str) -> socket.socket:
    """A socket that listens on `address`, this machine's, and on nothing else; its port is free until it is closed.

    Raises OSError when the address is none of this machine's.
    """
    return socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)


def join(
    rank: int, world_size: int, master_addr: str, master_port: int, listening: socket.socket | None = None
) -> None:
    """Join the group and hand it to DeepSpeed. Raises torch's DistNetworkError when rank 0 is out of reach.

    `listening` is rank 0's meeting point, which is used up; without one rank 0 opens it at the given address and port.
    """
    prepare_environment(rank, world_size, master_addr, master_port)
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if not dist.is_initialized():
        store = _store(rank, world_size, master_addr, master_port, listening)
        dist.init_process_group(
            "nccl" if gpu else "gloo", store=store, rank=rank, world_size=world_size, timeout=JOIN_TIMEOUT
        )
    import deepspeed

    if not gpu:
        # Naming no compiled op as usable spares a compiler run of a minute for one that only inference uses.
        vars(deepspeed.ops).setdefault("__compatible_ops__", {})
    deepspeed.init_distributed("nccl" if gpu else "gloo", verbose=False)


def _store(
    rank: int, world_size: int, address: str, port: int, listening: socket.socket | None = None
) -> dist.TCPStore:
    """Where the ranks meet. Torch alone would listen on every interface; ours listens on `address` only."""
    if rank > 0:
        return dist.TCPStore(address, port, world_size, False, JOIN_TIMEOUT)
    server = listening or socket.create_server((address, port))
    return dist.TCPStore(address, port, world_size, True, JOIN_TIMEOUT, master_listen_fd=server.detach())


def leave() -> None:
    """Leave the group; harmless when none was joined."""
    if dist.is_initialized():
        dist.destroy_process_group()


def device() -> torch.device:
    """Where this rank computes."""
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
