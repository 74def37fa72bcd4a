"""Chunked logprobs, entropy and their gradients against a float64 softmax over the whole vocabulary."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from actor.logprobs import KeptTokens, token_logprobs

T, D, V = 13, 8, 37


def _inputs(dtype=torch.float32, bias=True):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(T, D, generator=generator).to(dtype).requires_grad_()
    weight = (torch.randn(V, D, generator=generator) * 0.7).to(dtype).requires_grad_()
    offset = torch.randn(V, generator=generator).to(dtype).requires_grad_() if bias else None
    return hidden, weight, offset, torch.randint(V, (T,), generator=generator)


def _reference(hidden, weight, bias, targets, temperature, kept=None):
    """Plain float64 autograd over [T, V]."""
    leaves = [None if x is None else x.detach().double().requires_grad_() for x in (hidden, weight, bias)]
    logits = leaves[0] @ leaves[1].T
    if leaves[2] is not None:
        logits = logits + leaves[2]
    logits = logits / temperature
    if kept is not None:
        outside = torch.ones(T, V, dtype=torch.bool)
        for row, ids in enumerate(kept):
            outside[row, list(ids)] = False
        logits = logits.masked_fill(outside, -1e30)
    log_p = logits.log_softmax(-1)
    entropy = -(log_p.exp() * log_p).sum(-1)
    return leaves, log_p[torch.arange(T), targets], entropy


@pytest.mark.parametrize("chunk", [1, 4, 13, 100])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients_equal_the_full_softmax(chunk, temperature, bias):
    hidden, weight, offset, targets = _inputs(bias=bias)
    logprobs, entropy = token_logprobs(
        hidden, weight, offset, targets, temperature=temperature, chunk_tokens=chunk, want_entropy=True
    )
    leaves, want, want_entropy = _reference(hidden, weight, offset, targets, temperature)
    torch.testing.assert_close(logprobs.double(), want, atol=1e-5, rtol=0)
    torch.testing.assert_close(entropy.double(), want_entropy, atol=1e-5, rtol=0)
    g, h = torch.linspace(-1, 1, T), torch.linspace(0.5, -2, T)
    ((logprobs * g).sum() + (entropy * h).sum()).backward()
    ((want * g).sum() + (want_entropy * h).sum()).backward()
    for own, leaf in zip((hidden, weight, offset), leaves, strict=True):
        if own is not None:
            torch.testing.assert_close(own.grad.double(), leaf.grad, atol=2e-5, rtol=1e-5)


def test_without_entropy_the_gradient_is_that_of_the_logprobs_alone():
    hidden, weight, _, targets = _inputs(bias=False)
    logprobs, entropy = token_logprobs(
        hidden, weight, None, targets, temperature=0.7, chunk_tokens=5, want_entropy=False
    )
    assert entropy is None
    leaves, want, _ = _reference(hidden, weight, None, targets, 0.7)
    logprobs.square().sum().backward()
    want.square().sum().backward()
    torch.testing.assert_close(hidden.grad.double(), leaves[0].grad, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(weight.grad.double(), leaves[1].grad, atol=1e-4, rtol=1e-5)


def test_kept_tokens_renormalize_over_what_the_sampler_kept():
    hidden, weight, offset, targets = _inputs()
    kept = tuple(tuple({int(t), int(t + 3) % V, row}) for row, t in enumerate(targets))
    logprobs, entropy = token_logprobs(
        hidden, weight, offset, targets, temperature=0.9, chunk_tokens=4, want_entropy=True, kept=KeptTokens.of(kept)
    )
    leaves, want, want_entropy = _reference(hidden, weight, offset, targets, 0.9, kept)
    torch.testing.assert_close(logprobs.double(), want, atol=1e-5, rtol=0)
    torch.testing.assert_close(entropy.double(), want_entropy, atol=1e-5, rtol=0)
    (logprobs.sum() + entropy.sum()).backward()
    (want.sum() + want_entropy.sum()).backward()
    torch.testing.assert_close(weight.grad.double(), leaves[1].grad, atol=1e-5, rtol=1e-5)
    assert float(weight.grad[[v for v in range(V) if all(v not in k for k in kept)]].abs().max()) == 0


def test_bfloat16_inputs_are_multiplied_in_float32():
    hidden, weight, _, targets = _inputs(torch.bfloat16, bias=False)
    logprobs, _ = token_logprobs(hidden, weight, None, targets, temperature=1.0, chunk_tokens=4, want_entropy=False)
    _, want, _ = _reference(hidden, weight, None, targets, 1.0)
    assert logprobs.dtype == torch.float32
    torch.testing.assert_close(logprobs.double(), want, atol=1e-5, rtol=0)
    logprobs.sum().backward()
    assert hidden.grad.dtype == weight.grad.dtype == torch.bfloat16


def test_logprobs_are_never_positive():
    hidden = torch.tensor([[60.0], [0.0], [-60.0]])
    weight = torch.tensor([[1.0], [-1.0]])
    logprobs, _ = token_logprobs(
        hidden, weight, None, torch.tensor([0, 0, 1]), temperature=1.0, chunk_tokens=2, want_entropy=False
    )
    assert logprobs.tolist() == [0.0, pytest.approx(-0.6931472), 0.0]


def test_no_response_tokens_give_zero_gradients():
    hidden = torch.zeros(0, D, requires_grad=True)
    weight = torch.ones(V, D, requires_grad=True)
    logprobs, _ = token_logprobs(
        hidden, weight, None, torch.zeros(0, dtype=torch.int64), temperature=1.0, chunk_tokens=4, want_entropy=False
    )
    logprobs.sum().backward()
    assert logprobs.shape == (0,) and float(weight.grad.abs().max()) == 0


class _LargestTensor(TorchDispatchMode):
    """Remembers the number of elements of the largest result of any operation."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.elements = max(self.elements, tensor.numel())
        return out


@pytest.mark.parametrize("want_entropy", [True, False])
def test_no_tensor_is_larger_than_chunk_times_vocabulary(want_entropy):
    tokens, vocabulary, chunk = 256, 2_000, 16
    hidden = torch.randn(tokens, 4, requires_grad=True)
    weight = torch.randn(vocabulary, 4, requires_grad=True)
    with _LargestTensor() as seen:
        logprobs, entropy = token_logprobs(
            hidden,
            weight,
            None,
            torch.zeros(tokens, dtype=torch.int64),
            temperature=0.5,
            chunk_tokens=chunk,
            want_entropy=want_entropy,
        )
        (logprobs.sum() + (entropy.sum() if want_entropy else 0)).backward()
    assert seen.elements == chunk * vocabulary
