"""The policy network against transformers' own forward pass: single sequences, padded batches, packed rows."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import Qwen2Config

from actor.attention import PACKED_ATTENTION, packed_attention
from actor.head import LogprobHead
from actor.model import load_policy, without_noise
from actor.packed_rows import PackedRow
from actor.packing import pack
from configs.actor_schema import ActorConfig
from configs.schema import ModelConfig
from tests.actor.tiny_policy import packed_policy, save_tiny_model, sequences, single_logprobs, tiny_model

TEMPERATURE = 0.7


def _singles(model, batch):
    return torch.cat([single_logprobs(model, s, TEMPERATURE) for s in batch])


def _padded(model, batch):
    """The same from one right-padded batch with an attention mask."""
    longest = max(s.num_tokens for s in batch)
    ids, mask = torch.zeros(len(batch), longest, dtype=torch.int64), torch.zeros(len(batch), longest)
    for row, s in enumerate(batch):
        ids[row, : s.num_tokens] = torch.tensor(s.prompt_token_ids + s.response_token_ids)
        mask[row, : s.num_tokens] = 1
    log_p = (model(ids, attention_mask=mask).logits.double() / TEMPERATURE).log_softmax(-1)
    out = []
    for row, s in enumerate(batch):
        p, r = len(s.prompt_token_ids), len(s.response_token_ids)
        out.append(log_p[row, p - 1 : p - 1 + r].gather(1, ids[row, p : p + r, None])[:, 0])
    return torch.cat(out)


def _loss(logprobs, batch):
    advantages = torch.tensor([a for s in batch for a in s.advantages], dtype=logprobs.dtype)
    return -(logprobs * advantages).mean()


def _gradients(module):
    return {n.removeprefix("causal_lm."): p.grad for n, p in module.named_parameters()}


@pytest.mark.parametrize("attention", [PACKED_ATTENTION, "sdpa", "eager"])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("tied", [True, False])
def test_packed_equals_padded_equals_single(attention, checkpointing, tied):
    batch = sequences(7)
    policy = packed_policy(attention, tied, gradient_checkpointing=checkpointing)
    logprobs, entropy = policy(pack(batch), TEMPERATURE)
    assert entropy is None
    loss = _loss(logprobs, batch)
    loss.backward()
    for score in (_singles, _padded):
        model = tiny_model(tied)
        want = score(model, batch)
        torch.testing.assert_close(logprobs.double(), want, atol=1e-5, rtol=0)
        want_loss = _loss(want, batch)
        torch.testing.assert_close(loss.double(), want_loss, atol=1e-5, rtol=0)
        want_loss.backward()
        own = _gradients(policy)
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(own[name], parameter.grad, atol=1e-5, rtol=1e-4)


def test_a_row_does_not_depend_on_its_neighbours():
    batch = sequences(5)
    policy = packed_policy()
    alone = torch.cat([policy(pack([s]))[0] for s in batch])
    torch.testing.assert_close(policy(pack(batch))[0], alone, atol=1e-5, rtol=0)


def test_the_forward_with_and_without_gradient_is_the_same_to_the_bit():
    policy, batch = packed_policy(), pack(sequences(6))
    with torch.no_grad():
        before = policy(batch, TEMPERATURE)[0]
    assert torch.equal(before, policy(batch, TEMPERATURE, want_entropy=True)[0].detach())


def test_only_rows_that_predict_response_tokens_reach_the_head():
    policy, batch = packed_policy(), sequences(6)
    rows = []
    policy.inner.lm_head.register_forward_pre_hook(lambda _, args: rows.append(args[0].shape[0]))
    policy(pack(batch))
    assert rows == [sum(len(s.response_token_ids) for s in batch)]


def test_the_tied_head_is_the_embedding_itself():
    policy = packed_policy()
    assert isinstance(policy.inner.lm_head, LogprobHead)
    assert policy.inner.lm_head.weight is policy.inner.model.embed_tokens.weight
    assert "causal_lm.lm_head.weight" not in dict(policy.named_parameters())


def test_an_empty_micro_batch_runs_forward_and_backward():
    policy = packed_policy()
    logprobs, _ = policy(pack([]))
    assert logprobs.shape == (0,)
    logprobs.sum().backward()
    assert all(float(p.grad.abs().max()) == 0 for p in policy.parameters() if p.grad is not None)


def test_bfloat16_body_has_a_float32_head():
    policy = packed_policy().bfloat16()
    seen = []
    policy.inner.lm_head.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    batch = pack(sequences(3))
    logprobs, _ = policy(batch)
    weight = policy.inner.lm_head.weight
    logits = seen[0].double() @ weight.double().T
    want = logits.log_softmax(-1).gather(1, batch.input_ids[batch.response_index][:, None])[:, 0]
    assert weight.dtype == torch.bfloat16 and logprobs.dtype == torch.float32
    torch.testing.assert_close(logprobs.double(), want, atol=1e-5, rtol=0)


def test_kept_tokens_reach_the_head():
    batch = sequences(3)
    kept = [replace(s, kept_token_ids=tuple((t, (t + 1) % 50) for t in s.response_token_ids)) for s in batch]
    policy = packed_policy()
    full, renormalized = policy(pack(batch))[0], policy(pack(kept))[0]
    assert bool((renormalized > full).all()) and bool((renormalized <= 0).all())


def test_a_sliding_window_is_kept():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 9, 4) for _ in range(3))
    out, _ = packed_attention(torch.nn.Identity(), q, k, v, None, sliding_window=3, row=PackedRow.of([9]))
    scores = (q.double() @ k.double().transpose(-1, -2)) / 2.0
    i, j = torch.arange(9)[:, None], torch.arange(9)
    want = scores.masked_fill((j > i) | (j <= i - 3), -torch.inf).softmax(-1) @ v.double()
    torch.testing.assert_close(out.transpose(1, 2).double(), want, atol=1e-6, rtol=0)


@pytest.mark.parametrize("unsupported", [{"softcap": 30.0}, {"s_aux": torch.ones(1)}, {"dropout": 0.1}])
def test_attention_refuses_what_it_would_ignore(unsupported):
    q = torch.zeros(1, 1, 2, 4)
    with pytest.raises(ValueError, match="attn_implementation=eager"):
        packed_attention(torch.nn.Identity(), q, q, q, None, row=PackedRow.of([2]), **unsupported)


@pytest.mark.parametrize(
    "name", ["attention_dropout", "resid_pdrop", "layerdrop", "router_jitter_noise", "input_jitter_noise"]
)
def test_loading_switches_off_what_a_sampler_does_not_do(name):
    config = Qwen2Config(**{name: 0.3})
    without_noise(config)
    assert getattr(config, name) == 0.0 and config.rms_norm_eps == Qwen2Config().rms_norm_eps


def test_load_policy_reads_a_folder(tiny_model_path):
    policy = load_policy(ModelConfig(path=tiny_model_path, dtype="float32"), ActorConfig())
    batch = sequences(2)
    want = _singles(tiny_model(), batch)
    torch.testing.assert_close(policy(pack(batch), TEMPERATURE)[0].double(), want, atol=1e-5, rtol=0)
    assert policy.training


def test_a_model_that_changes_its_logits_is_refused(tmp_path):
    model = tiny_model()
    model.config.final_logit_softcapping = 30.0
    model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="final_logit_softcapping"):
        load_policy(ModelConfig(path=str(tmp_path), dtype="float32"), ActorConfig())


def test_weights_that_are_pickles_run_no_code(tmp_path):
    """A model's folder may hold `pytorch_model.bin`, which could ask for anything when it is read."""

    class Runs:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    folder = Path(save_tiny_model(tmp_path / "model"))
    (folder / "model.safetensors").unlink()
    torch.save({"model.norm.weight": Runs()}, folder / "pytorch_model.bin")
    with pytest.raises(Exception, match=r"(?i)weights.only"):
        load_policy(ModelConfig(path=str(folder), dtype="float32"), ActorConfig())
    assert not (tmp_path / "ran").exists()
