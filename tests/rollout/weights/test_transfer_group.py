"""Ranks of a transfer group, and the messages that vLLM's own classes must accept."""

from vllm.distributed.weight_transfer.nccl_common import NCCLWeightTransferInitInfo

from exchange.types import TensorMeta, WeightUpdate
from rollout.weights.nccl_receiver import NcclUpdate
from rollout.weights.receiver import SharedMemoryUpdate
from rollout.weights.transfer import join_info, transfer_places, update_info

TENSORS = (TensorMeta("w", "bfloat16", (2, 3), "ab"), TensorMeta("b", "float32", (3,), "cd"))


def test_every_gpu_has_one_rank_and_the_trainer_is_rank_0():
    places = transfer_places(1, 3, 2, "127.0.0.1", 29500, 64)
    assert [p.rank_offset for p in places] == [1, 3, 5]  # two GPUs each, after the trainer
    assert {p.world_size for p in places} == {7}


def test_a_place_is_told_in_the_words_of_vllm():
    info = NCCLWeightTransferInitInfo(**join_info(transfer_places(1, 2, 1, "10.0.0.1", 4000, 64)[1]))
    assert (info.master_address, info.master_port, info.rank_offset, info.world_size) == ("10.0.0.1", 4000, 2, 3)
    assert info.packed and info.packed_buffer_size_bytes == 64


def test_a_broadcast_carries_the_manifest_and_no_file():
    update = WeightUpdate(1, (), TENSORS, (), (), transfer_places(1, 1, 1, "127.0.0.1", 4000, 64)[0])
    assert tuple(NcclUpdate(**update_info(update)).manifest()) == TENSORS


def test_files_carry_the_same_manifest():
    update = SharedMemoryUpdate(**update_info(WeightUpdate(1, ("a",), TENSORS, (), ())))
    assert update.buckets == ["a"] and tuple(update.manifest()) == TENSORS
