"""plan() keeps budgets and balance; pack() puts every token where it belongs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from actor.batch import TrainSequence
from actor.packing import pack, plan


def _sequence(prompt: int, response: int, group: int = 0, **changes) -> TrainSequence:
    fields = {
        "prompt_token_ids": tuple(range(100, 100 + prompt)),
        "response_token_ids": tuple(range(200, 200 + response)),
        "mask": (1,) * response,
        "behavior_logprobs": (-0.5,) * response,
        "versions": (0,) * response,
        "advantages": (1.0,) * response,
        "group": group,
    }
    return TrainSequence(**(fields | changes))


lengths = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 60)), max_size=40)


@settings(max_examples=150, deadline=None)
@given(st.lists(lengths, min_size=1, max_size=3), st.integers(1, 4), st.integers(1, 120))
def test_plan_loses_nothing_and_keeps_the_budget(minibatches, num_ranks, max_tokens):
    given_sequences = [[_sequence(p, r, group=i) for i, (p, r) in enumerate(m)] for m in minibatches]
    planned = plan(given_sequences, num_ranks, max_tokens)
    assert len(planned) == num_ranks
    for index, sequences in enumerate(given_sequences):
        shares = [rank[index] for rank in planned]
        placed = [s for share in shares for micro in share for s in micro]
        assert sorted(map(id, placed)) == sorted(map(id, sequences))
        assert len({len(share) for share in shares}) == 1  # the same number of micro-batches on every rank
        for micro in (m for share in shares for m in share):
            assert len(micro) <= 1 or sum(s.num_tokens for s in micro) <= max_tokens
        num_micro = num_ranks * len(shares[0])
        assert sum(not m for share in shares for m in share) <= max(0, num_micro - len(sequences))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(20, 80), min_size=64, max_size=128), st.integers(1, 4))
def test_plan_balances_ranks(responses, num_ranks):
    planned = plan([[_sequence(10, r) for r in responses]], num_ranks, 1024)
    loads = [sum(s.num_tokens for micro in rank[0] for s in micro) for rank in planned]
    total = sum(loads)
    # The slowest rank is waited for. Stretches of more than the mean are never more than bins, so that no bin needs
    # to hold more than the mean and one sequence (90 tokens at most).
    assert max(loads) <= total / num_ranks + 90 * len(planned[0][0])
    assert num_ranks * len(planned[0][0]) <= -(-total // 1024) + 2 * num_ranks


def test_a_sequence_longer_than_the_budget_runs_alone_and_whole():
    long, short = _sequence(50, 100), [_sequence(2, 3) for _ in range(4)]
    planned = plan([[*short, long]], 1, 40)
    assert [long] in planned[0][0]
    assert all(s.num_tokens in (5, 150) for micro in planned[0][0] for s in micro)


def test_plan_refuses_what_cannot_work():
    with pytest.raises(ValueError, match="max_tokens_per_microbatch=0"):
        plan([[]], 1, 0)
    with pytest.raises(ValueError, match="num_workers=0"):
        plan([[]], 0, 10)


def test_pack_places_every_token_and_its_data():
    a = _sequence(2, 3, mask=(1, 0, 1), versions=(4, 4, 5), behavior_logprobs=(-1.0, -2.0, -3.0))
    b = _sequence(1, 2, advantages=(0.5, -0.5))
    batch = pack([a, b])
    assert batch.input_ids.tolist() == [100, 101, 200, 201, 202, 100, 200, 201]
    assert batch.position_ids.tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert batch.response_index.tolist() == [2, 3, 4, 6, 7]
    assert batch.predictor_index.tolist() == [1, 2, 3, 5, 6]
    assert batch.row.sequence_lengths == (5, 3)
    assert batch.tokens.sequence.tolist() == [0, 0, 0, 1, 1]
    assert batch.tokens.mask.tolist() == [True, False, True, True, True]
    assert batch.tokens.versions.tolist() == [4, 4, 5, 0, 0]
    assert batch.tokens.behavior_logprobs.tolist() == [-1.0, -2.0, -3.0, -0.5, -0.5]
    assert batch.tokens.advantages.tolist() == [1.0, 1.0, 1.0, 0.5, -0.5]
    assert batch.tokens.num_sequences == 2


def test_an_empty_micro_batch_has_a_row_but_no_response():
    batch = pack([])
    assert batch.input_ids.shape == (1,) and batch.response_index.shape == (0,) and batch.tokens.mask.shape == (0,)
    assert batch.tokens.mask.dtype == torch.bool and batch.tokens.num_sequences == 0


def test_kept_tokens_include_the_sampled_one_and_never_mix():
    kept = _sequence(1, 2, kept_token_ids=((200, 7), (9,)))
    assert pack([kept]).kept_token_ids == ((200, 7), (9, 201))
    with pytest.raises(ValueError, match="mixes"):
        pack([kept, _sequence(1, 1)])


def test_a_sequence_without_a_prompt_is_refused():
    with pytest.raises(ValueError, match="no prompt token"):
        pack([_sequence(0, 2)])
