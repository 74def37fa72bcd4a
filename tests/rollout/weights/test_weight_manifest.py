import hashlib

import pytest
import torch
from safetensors.torch import save_file

from exchange.types import TensorMeta
from rollout.errors import WeightMismatch
from rollout.weights.manifest import checked_tensors, read_buckets, tensor_sha256

W = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
B = torch.tensor([0.5, -0.5], dtype=torch.bfloat16)
W_SHA = hashlib.sha256(bytes.fromhex("0000803f000000400000404000008040")).hexdigest()
MANIFEST = [TensorMeta("w", "float32", (2, 2), W_SHA), TensorMeta("b", "bfloat16", (2,), tensor_sha256(B))]


def test_digest_is_of_the_bytes_in_row_major_order():
    assert tensor_sha256(W) == W_SHA
    assert tensor_sha256(W.T.contiguous().T) == W_SHA
    assert tensor_sha256(W.T) != W_SHA


def test_files_come_back_as_published(tmp_path):
    files = [str(tmp_path / "0.safetensors"), str(tmp_path / "1.safetensors")]
    save_file({"w": W}, files[0])
    save_file({"b": B}, files[1])
    tensors = checked_tensors(read_buckets(files), MANIFEST)
    assert torch.equal(tensors["w"], W) and torch.equal(tensors["b"], B)


@pytest.mark.parametrize(
    ("received", "named"),
    [
        ([("w", W)], "b: in the manifest, never received"),
        ([("w", W), ("b", B), ("c", B)], "c: not in the manifest"),
        ([("w", W), ("b", B), ("w", W)], "w: received twice"),
        ([("w", W), ("b", B.float())], "b: dtype float32"),
        ([("w", W.reshape(4)), ("b", B)], r"w: shape \(4,\)"),
        ([("w", W * (1 + 2**-23)), ("b", B)], "w: bytes differ"),
        ([("w", torch.zeros(2, 2)), ("b", B)], "w: bytes differ"),
    ],
)
def test_anything_else_is_refused_and_named(received, named):
    with pytest.raises(WeightMismatch, match=named):
        checked_tensors(received, MANIFEST)
