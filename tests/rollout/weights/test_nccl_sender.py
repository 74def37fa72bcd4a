"""The sender's limits and its packing, on a CPU: streams and communicators are stand-ins, the packing is vLLM's."""

import contextlib
import threading

import pytest
import torch
from vllm.distributed.weight_transfer import packed_tensor

from rollout.weights import nccl_sender
from rollout.weights.nccl_sender import NcclSender

WEIGHTS = [("a", torch.arange(6.0).reshape(2, 3)), ("b", torch.ones(5, dtype=torch.bfloat16)), ("c", torch.zeros(1))]


class Stream:
    def synchronize(self):
        pass


class Wire:
    """Keeps what was sent, in order, and hands it to the receiver; `stall` ends when the group is destroyed."""

    def __init__(self, stalls=False):
        self.sent, self.destroyed, self._stalls = [], threading.Event(), stalls

    def broadcast(self, tensor, src):
        assert not self.destroyed.is_set()
        if self._stalls:
            assert self.destroyed.wait(5)
        self.sent.append(tensor.clone())

    def destroy(self):
        self.destroyed.set()


@pytest.fixture(autouse=True)
def cpu_streams(monkeypatch):
    monkeypatch.setattr(packed_tensor, "_get_streams", lambda device, n: (Stream(),) * n)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    monkeypatch.setattr(torch.accelerator, "set_device_index", lambda index: None)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())


def joined(monkeypatch, wire):
    monkeypatch.setattr(nccl_sender, "trainer_init", lambda meeting: wire)
    sender = NcclSender()
    sender.join("127.0.0.1", 4000, 2, 5.0)
    return sender


def test_the_receiver_cuts_the_stream_as_it_was_packed(monkeypatch):
    wire, received = Wire(), {}
    joined(monkeypatch, wire).send(iter(WEIGHTS), 28, 5.0)
    assert len(wire.sent) == 2  # 24 + 10 bytes pass the limit of 28, then the last 4

    class Arriving:
        def broadcast(self, tensor, src):
            tensor.copy_(wire.sent.pop(0))

    packed_tensor.packed_nccl_broadcast_consumer(
        iterator=((n, (list(t.shape), t.dtype)) for n, t in WEIGHTS),
        group=Arriving(), src=0, post_unpack_func=received.update, buffer_size_bytes=28, num_buffers=2, device="cpu",
    )  # fmt: skip
    assert all(torch.equal(received[n], t) and received[n].dtype == t.dtype for n, t in WEIGHTS)


def test_a_receiver_that_stalls_ends_the_group_and_the_iterator_is_exhausted(monkeypatch):
    wire, tensors = Wire(stalls=True), iter(WEIGHTS)
    with pytest.raises(TimeoutError, match=r"waited 0\.05 s for the broadcast"):
        joined(monkeypatch, wire).send(tensors, 1, 0.05)
    assert wire.destroyed.is_set() and next(tensors, None) is None and len(wire.sent) == 1


def test_a_member_that_does_not_come_ends_the_joining(monkeypatch):
    never = threading.Event()
    monkeypatch.setattr(nccl_sender, "trainer_init", lambda meeting: never.wait(5))
    with pytest.raises(TimeoutError, match=r"waited 0\.05 s for the transfer group of 2 at 127\.0\.0\.1:4000"):
        NcclSender().join("127.0.0.1", 4000, 2, 0.05)
    never.set()


def test_a_new_group_ends_the_one_before(monkeypatch):
    wire = Wire()
    sender = joined(monkeypatch, wire)
    sender.join("127.0.0.1", 4001, 3, 5.0)
    assert wire.destroyed.is_set()
