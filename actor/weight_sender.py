"""Sending the whole weights through a transport that the trainer does not know: it comes by import path."""

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Protocol

import torch

from actor.full_weights import Bucket, iter_full_weights

NamedTensor = tuple[str, torch.Tensor]


class WeightSender(Protocol):
    """The sending end of a transport, in the process of rank 0."""

    def endpoint(self, loopback: bool) -> tuple[str, int]:
        """Address and free port for a new group."""
        ...

    def join(self, address: str, port: int, world_size: int, limit_s: float) -> None:
        """Form a group of `world_size` with the receivers. Raises TimeoutError."""
        ...

    def send(self, tensors: Iterator[NamedTensor], buffer_bytes: int, limit_s: float) -> None:
        """Send all tensors in order. Raises TimeoutError."""
        ...


def make_sender(path: str) -> WeightSender:
    """An instance of the class `module:name`."""
    module, _, name = path.partition(":")
    sender: WeightSender = getattr(import_module(module), name)()
    return sender


def broadcast(engine: Any, sender: WeightSender | None, bucket_bytes: int, limit_s: float) -> None:
    """Send the whole weights of the policy from the rank that has a sender. Collective.

    Every rank goes through all buckets whatever becomes of the sending, for gathering needs all ranks.
    """
    tensors = flatten(iter_full_weights(engine, bucket_bytes))
    if torch.cuda.is_available():
        torch.cuda.synchronize()  # the sender reads on streams of its own
    try:
        if sender is not None:
            sender.send(tensors, bucket_bytes, limit_s)
    finally:
        for _ in tensors:
            pass


def flatten(buckets: Iterable[Bucket]) -> Iterator[NamedTensor]:
    """The buckets' tensors one by one, as copies: a sender packs tensors of several buckets together."""
    for bucket in buckets:
        copies = [(name, tensor.detach().clone()) for name, tensor in bucket]
        if any(tensor.is_cuda for _, tensor in copies):
            torch.cuda.current_stream().synchronize()  # the bucket may be released when the next one is requested
        yield from copies
