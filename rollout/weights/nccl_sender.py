"""The sending end of vLLM's NCCL weight transfer, as rank 0 of the group.

It runs in the process of trainer rank 0, which finds it by import path: the trainer itself does not know vLLM.
"""

import threading
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import torch
from vllm.distributed.weight_transfer.nccl_common import trainer_init
from vllm.distributed.weight_transfer.packed_tensor import packed_nccl_broadcast_producer
from vllm.utils.network_utils import get_ip, get_open_port

from rollout.weights.transfer import NUM_BUFFERS

LOOPBACK = "127.0.0.1"


class NcclSender:
    """`endpoint` → workers learn where to meet → `join` beside them → `send` any number of times."""

    def __init__(self) -> None:
        self._group: Any = None

    def endpoint(self, loopback: bool) -> tuple[str, int]:
        """Address and free port of this process for a new group."""
        return (LOOPBACK if loopback else get_ip()), get_open_port()

    def join(self, address: str, port: int, world_size: int, limit_s: float) -> None:
        """Form the group of `world_size`, in place of the one before.

        Raises:
            TimeoutError: some member did not come within `limit_s`.
        """
        self._leave()
        joined: list[Any] = []
        failed: list[Exception] = []
        device = torch.accelerator.current_device_index()

        def form() -> None:
            try:
                torch.accelerator.set_device_index(device)
                meeting = {"master_address": address, "master_port": port, "world_size": world_size}
                joined.append(trainer_init(meeting))
            except Exception as error:
                failed.append(error)

        # NCCL's own wait for the members has no limit, so it is left behind in a thread when ours has passed.
        thread = threading.Thread(target=form, daemon=True)
        thread.start()
        thread.join(limit_s)
        if failed:
            raise failed[0]
        if not joined:
            raise TimeoutError(f"waited {limit_s:g} s for the transfer group of {world_size} at {address}:{port}")
        self._group = joined[0]

    def send(self, tensors: Iterator[tuple[str, torch.Tensor]], buffer_bytes: int, limit_s: float) -> None:
        """Broadcast all tensors in order, packed into buffers of about `buffer_bytes`.

        The iterator is exhausted also when time runs out, so that ranks which gather along stay in step.

        Raises:
            TimeoutError: a member did not take part to the end within `limit_s`; the group is gone then.
        """
        assert self._group is not None, "join() comes first"
        channel = _Channel(self._group)
        timer = threading.Timer(limit_s, channel.abort)
        timer.daemon = True
        timer.start()
        try:
            packed_nccl_broadcast_producer(
                iterator=tensors,
                group=channel,
                src=0,
                post_iter_func=itemgetter(1),
                buffer_size_bytes=buffer_bytes,
                num_buffers=NUM_BUFFERS,
            )
        finally:
            timer.cancel()
        if channel.aborted:
            self._group = None
            raise TimeoutError(f"waited {limit_s:g} s for the broadcast of the weights to be received")

    def _leave(self) -> None:
        if self._group is not None:
            self._group.destroy()  # aborts: members that are gone cannot take part in an end in good order
            self._group = None


class _Channel:
    """The communicator as the producer sees it, silent once it was aborted: NCCL must not be called after that."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self.aborted = False

    def broadcast(self, tensor: torch.Tensor, src: int) -> None:
        if not self.aborted:
            self._group.broadcast(tensor, src=src)

    def abort(self) -> None:
        self.aborted = True
        self._group.destroy()
