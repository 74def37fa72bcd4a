"""The check itself, on tensors small enough to see through; the real engine is checked in tests/integration."""

import pytest
import torch

from rollout.errors import WeightMismatch
from rollout.weights.check import compare_function, compare_values, plan_sources

PACKED = {"qkv_proj": ["q_proj", "k_proj", "v_proj"]}


def test_fused_and_tied_parameters_find_their_tensors():
    parameters = ["embed.weight", "0.qkv_proj.weight", "0.norm.weight", "lm_head.weight"]
    sent = ["embed.weight", "0.q_proj.weight", "0.k_proj.weight", "0.v_proj.weight", "0.norm.weight"]
    sources = plan_sources(parameters, sent, PACKED, {"lm_head.weight": "embed.weight"})
    assert sources["0.qkv_proj.weight"] == ("0.q_proj.weight", "0.k_proj.weight", "0.v_proj.weight")
    assert sources["lm_head.weight"] == ("embed.weight",)


def test_a_head_that_is_sent_is_compared_with_what_was_sent():
    sources = plan_sources(["e.weight", "h.weight"], ["e.weight", "h.weight"], {}, {"h.weight": "e.weight"})
    assert sources["h.weight"] == ("h.weight",)


def test_renamed_modules_are_found():
    sources = plan_sources(["model.w"], ["transformer.w"], {}, {}, lambda name: name.replace("transformer", "model"))
    assert sources == {"model.w": ("transformer.w",)}


def test_a_parameter_without_a_tensor_is_refused():
    with pytest.raises(WeightMismatch, match=r"not sent: \['b'\]"):
        plan_sources(["a", "b"], ["a"], {}, {})


def test_a_tensor_without_a_place_is_refused():
    with pytest.raises(WeightMismatch, match=r"without a place: \['c'\]"):
        plan_sources(["a"], ["a", "c"], {}, {})


def test_one_missing_part_leaves_the_fused_parameter_uncovered():
    with pytest.raises(WeightMismatch, match="qkv_proj"):
        plan_sources(["0.qkv_proj.weight"], ["0.q_proj.weight", "0.k_proj.weight"], PACKED, {})


def test_values_are_compared_exactly_and_vocabulary_padding_is_left_out():
    sent = torch.arange(6.0).reshape(3, 2)
    assert compare_values(torch.cat([sent, torch.zeros(2, 2)]), sent) is None
    off = sent.clone()
    off[2, 1] += 2**-20
    assert "1 of 6 values" in str(compare_values(off, sent))
    assert "shape" in str(compare_values(sent[:2], sent))


def test_values_are_compared_in_the_type_of_the_parameter():
    sent = torch.tensor([1.0 + 2**-20])
    assert compare_values(sent.bfloat16(), sent) is None


@pytest.mark.parametrize("columns", [96, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer_with_the_sent_matrix_passes(columns, dtype):
    weight = torch.randn(40, columns, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert (
        compare_function(lambda x: torch.nn.functional.linear(x, weight), tuple(weight.shape), weight, dtype, seed=1)
        is None
    )


@pytest.mark.parametrize("shape", [(40, 95), (40, 97), (39, 96)])
def test_a_layer_of_another_shape_is_refused_before_its_kernel_is_called(shape):
    def kernel(x):
        raise AssertionError("would read beyond its memory")

    problem = compare_function(kernel, shape, torch.ones(40, 96), torch.float32, seed=1)
    assert problem == f"a layer of shape {shape} holds what was sent as (40, 96)"


def test_every_single_value_of_a_small_matrix_counts():
    weight = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
    stale = weight.clone()
    stale[5, 11] *= 1 + 2**-22
    assert "1 of 128 repacked values" in str(
        compare_function(lambda x: x @ stale.T, tuple(weight.shape), weight, torch.float32, seed=1)
    )


def test_a_stale_large_matrix_is_seen_by_its_columns():
    weight = torch.randn(40, 300, generator=torch.Generator().manual_seed(0))
    stale = weight - 1e-6  # one Adam step at lr 1e-6
    assert compare_function(lambda x: x @ stale.T, tuple(weight.shape), weight, torch.float32, seed=1) is not None


def test_damage_in_a_column_that_is_not_sampled_is_seen_by_the_random_rows():
    weight = torch.randn(40, 300, generator=torch.Generator().manual_seed(0))
    for column in range(300):
        damaged = weight.clone()
        damaged[:, column] = 0
        assert (
            compare_function(lambda x, w=damaged: x @ w.T, tuple(weight.shape), weight, torch.float32, seed=1)
            is not None
        )


def test_a_value_that_is_not_a_number_is_seen():
    weight = torch.ones(4, 300)
    broken = weight.clone()
    broken[0, 0] = torch.nan
    assert compare_function(lambda x: x @ broken.T, tuple(weight.shape), weight, torch.float32, seed=1) is not None
