"""Proximal logprobs of a step: the trainer's own scores before it, under each sequence's name, whatever the packing."""

from dataclasses import replace

import pytest
import torch

from actor.packing import plan
from actor.proximal_record import proximal_record
from tests.actor.tiny_policy import denominators, sequences

NUM_SEQUENCES = 12


def named(n=NUM_SEQUENCES):
    """Groups of two."""
    return [replace(s, sample=i % 2) for i, s in enumerate(sequences(n, seed=3, version=3))]


def step(trainer, num_minibatches, batch):
    """The record, and every sequence's scores by the weights before the step."""
    before = trainer.score([[s] for s in batch])
    size = len(batch) // num_minibatches
    minibatches = [batch[i : i + size] for i in range(0, len(batch), size)]
    share = plan(minibatches, 1, trainer.actor.max_tokens_per_microbatch)[0]
    assert sum(len(parts) for parts in share) > num_minibatches, "several micro-batches"
    record = trainer.train_step(3, share, [denominators(m) for m in minibatches])["proximal_logprobs"]
    return record, {(s.group, s.sample): scores for s, scores in zip(batch, before, strict=True)}


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("method", ["recompute", "reuse", "metrics"])
def test_every_token_has_its_logprob_under_the_weights_before_the_step(make_trainer, method):
    record, before = step(make_trainer(prox_logp_method=method, budget=40), 2, named())
    assert set(record) == set(before)
    for name, scores in before.items():
        assert record[name] == pytest.approx(scores, abs=1e-5)


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("actor", [{"prox_logp_method": "loglinear"}, {"use_decoupled_loss": False}])
def test_without_a_forward_at_version_v_only_the_first_minibatch_is_known(make_trainer, actor):
    record, before = step(make_trainer(budget=40, **actor), 2, batch := named())
    first = {(s.group, s.sample) for s in batch[: len(batch) // 2]}
    assert set(record) == first
    for name in first:
        assert record[name] == pytest.approx(before[name], abs=1e-5)


def test_values_that_are_no_numbers_are_left_out():
    a, b = named(2)
    values = torch.arange(-1.0, -1.0 - len(a.response_token_ids) - len(b.response_token_ids), -1.0)
    values[-1] = -torch.inf
    assert proximal_record([[[a, b]]], [[values]]) == {(0, 0): values[: len(a.response_token_ids)].tolist()}


def test_micro_batches_without_sequences_or_without_values_add_nothing():
    assert proximal_record([[[], named(1)]], [[torch.zeros(0), None]]) == {}


def test_digits_beyond_those_of_float32_are_not_written():
    (one,) = named(1)
    values = torch.full((len(one.response_token_ids),), -1 / 3)
    assert set(proximal_record([[[one]]], [[values]])[0, 0]) == {-0.3333333}
