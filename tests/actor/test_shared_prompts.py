"""Completions that share a prompt compute it once, and nothing else changes."""

from dataclasses import replace

import pytest
import torch

from actor import attention
from actor.attention import packed_attention
from actor.metrics import to_floats
from actor.model import PolicyNetwork
from actor.packed_rows import PackedRow, Run
from actor.packing import pack, plan
from tests.actor.tiny_policy import (
    denominators,
    packed_policy,
    sequences,
    sharing_prompts,
    single_logprobs,
    tiny_model,
)

TEMPERATURE = 0.7


def groups(num_groups=3, n=4, seed=0):
    """`n` completions of each prompt, of different lengths."""
    return sharing_prompts(sequences(num_groups * n, seed), n)


def test_the_row_by_hand():
    one, two, other = sequences(3)
    one = replace(one, prompt_token_ids=(7, 8, 9), response_token_ids=(1, 2), **per_token(2))
    two = replace(two, prompt_token_ids=(7, 8, 9), response_token_ids=(3, 4, 5), **per_token(3))
    other = replace(other, prompt_token_ids=(6,), response_token_ids=(1,), **per_token(1))
    batch = pack([one, two, other], share_prompts=True)
    assert batch.input_ids.tolist() == [7, 8, 9, 1, 2, 3, 4, 5, 6, 1]
    assert batch.position_ids.tolist() == [0, 1, 2, 3, 4, 3, 4, 5, 0, 1]
    assert batch.response_index.tolist() == [3, 4, 5, 6, 7, 9]
    assert batch.predictor_index.tolist() == [2, 3, 2, 5, 6, 8]
    assert batch.row.runs == (Run(3, (2, 3)), Run(1, (1,)))
    assert batch.tokens.sequence.tolist() == [0, 0, 1, 1, 1, 2]


def per_token(n):
    return {
        "mask": (1,) * n,
        "behavior_logprobs": (-1.0,) * n,
        "versions": (0,) * n,
        "advantages": (1.0,) * n,
    }


def test_the_mask_by_hand():
    """Prompt p0 p1, completions a2 a3 and b2: a completion sees the prompt and itself."""
    want = [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 0, 0, 1],
    ]
    assert Run(2, (2, 1)).mask(None).int().tolist() == want
    want[2][0] = want[3][0] = want[3][1] = want[4][0] = 0
    assert Run(2, (2, 1)).mask(2).int().tolist() == want


@pytest.mark.parametrize("dense_tokens", [512, 0])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_shared_equals_single_in_logprobs_loss_and_gradient(monkeypatch, dense_tokens, checkpointing):
    monkeypatch.setattr(attention, "DENSE_TOKENS", dense_tokens)
    batch, shared, model = groups(), packed_policy(gradient_checkpointing=checkpointing), tiny_model(True)
    packed = pack(batch, share_prompts=True)
    assert len(packed.input_ids) < sum(s.num_tokens for s in batch)
    advantages = torch.tensor([a for s in batch for a in s.advantages])
    logprobs = shared(packed, TEMPERATURE)[0]
    (logprobs * advantages).mean().backward()
    want = torch.cat([single_logprobs(model, s, TEMPERATURE) for s in batch])
    torch.testing.assert_close(logprobs.double(), want, atol=1e-5, rtol=0)
    (want * advantages).mean().backward()
    own = {n.removeprefix("causal_lm."): p.grad for n, p in shared.named_parameters()}
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(own[name], parameter.grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("dense_tokens", [512, 0])
@pytest.mark.parametrize("window", [None, 3, 100])
def test_attention_against_every_sequence_by_itself_in_float64(monkeypatch, dense_tokens, window):
    monkeypatch.setattr(attention, "DENSE_TOKENS", dense_tokens)
    torch.manual_seed(0)
    runs = (Run(4, (3, 1, 5)), Run(2, (6,)), Run(3, (2, 2)))
    row = PackedRow(runs)
    q = torch.randn(1, 4, row.num_tokens, 8)
    k, v = (torch.randn(1, 2, row.num_tokens, 8) for _ in range(2))
    out, _ = packed_attention(torch.nn.Identity(), q, k, v, None, sliding_window=window, row=row)
    start = 0
    for run in runs:
        for response in range(len(run.responses)):
            first = run.prompt + sum(run.responses[:response])
            index = start + torch.tensor([*range(run.prompt), *range(first, first + run.responses[response])])
            own = [x[:, :, index].double() for x in (q, *(x.repeat_interleave(2, dim=1) for x in (k, v)))]
            scores = own[0] @ own[1].transpose(-1, -2) / 8**0.5
            i, j = torch.arange(len(index))[:, None], torch.arange(len(index))
            hidden = (j > i) if window is None else (j > i) | (j <= i - window)
            want = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ own[2]
            torch.testing.assert_close(out[:, index].transpose(1, 2).double(), want, atol=1e-6, rtol=0)
        start += run.num_tokens


@pytest.mark.usefixtures("process_group")
def test_the_trainer_computes_a_prompt_once_and_steps_as_without(make_trainer, monkeypatch):
    batch, seen, metrics = groups(), [], []
    for share in (True, False):
        if not share:
            monkeypatch.setattr(PolicyNetwork, "shares_prompts", False)
        trainer = make_trainer(prox_logp_method="reuse")
        trainer.policy.inner.base_model.register_forward_pre_hook(
            lambda _, args, kwargs: seen.append(kwargs["input_ids"].numel()), with_kwargs=True
        )
        result = trainer.train_step(3, plan([batch], 1, 4096)[0], [denominators(batch)])
        metrics.append(to_floats(result["metrics"]))
    spared = sum(3 * len(s.prompt_token_ids) for s in batch[::4])
    assert seen == [sum(s.num_tokens for s in batch) - spared, sum(s.num_tokens for s in batch)]
    assert metrics[0] == pytest.approx(metrics[1], abs=1e-5)
    assert metrics[0]["ppo_actor/update/grad_norm/avg"] > 0.01


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_a_plan_keeps_groups_together_within_the_budget(num_ranks):
    batch = groups(16, 8, seed=1)
    total = sum(s.num_tokens for s in batch)
    planned = plan([batch], num_ranks, total // 2)
    parts = [part for rank in planned for part in rank[0]]
    loads = [sum(s.num_tokens for s in part) for part in parts]
    longest = max(s.num_tokens for s in batch)
    assert max(loads) <= total // 2 and max(loads) <= total / len(parts) + longest
    assert sum(len(pack(part, share_prompts=True).row.runs) for part in parts) <= 16 + len(parts) - 1
