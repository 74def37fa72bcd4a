import math
from types import SimpleNamespace

import pytest

pytest.importorskip("vllm")

from exchange.types import Sampling
from rollout.engines.sampling import TIES, check_kept_set, num_logprobs, sampling_params, to_completion, to_scores

PLAIN = Sampling(temperature=0.7, max_new_tokens=5, stop_token_ids=(9,), seed=3)


class Flat(SimpleNamespace):
    def __len__(self):
        return len(self.start_indices)


def output(token_ids, rows, finish_reason="stop", spans=None):
    """As vLLM's CompletionOutput with flat logprobs; `rows` are token → logprob at each position."""
    flat = Flat(start_indices=[], end_indices=[], token_ids=[], logprobs=[])
    for row in rows:
        flat.start_indices.append(len(flat.token_ids))
        flat.token_ids += row
        flat.logprobs += row.values()
        flat.end_indices.append(len(flat.token_ids))
    spans = [SimpleNamespace(version="4", start=0, end=len(token_ids))] if spans is None else spans
    return SimpleNamespace(token_ids=token_ids, logprobs=flat, finish_reason=finish_reason, weight_versions=spans)


def test_request_parameters_leave_nothing_to_the_engine():
    p = sampling_params(PLAIN, end_token_ids=(1, 2), vocab_size=100)
    assert p.stop_token_ids == [1, 2, 9]
    assert (p.temperature, p.max_tokens, p.seed, p.top_p) == (0.7, 5, 3, 1.0)
    assert p.logprobs == 0 and p.detokenize is False


def test_the_whole_kept_set_is_asked_for_and_no_more():
    assert num_logprobs(PLAIN, 100) == 0
    assert num_logprobs(Sampling(1.0, 5, top_p=0.9), 100) == 100
    assert num_logprobs(Sampling(1.0, 5, top_k=10), 100) == 10 + TIES
    assert num_logprobs(Sampling(0.0, 5, top_p=0.9), 100) == 0  # greedy is scored over the whole vocabulary


def test_a_kept_set_without_bound_is_refused_with_the_remedy():
    check_kept_set(Sampling(1.0, 5, top_p=0.9), 128)
    check_kept_set(Sampling(1.0, 5, top_p=0.9, top_k=50), 150_000)
    check_kept_set(PLAIN, 150_000)
    with pytest.raises(ValueError, match=r"set rollout\.sampling\.top_k"):
        check_kept_set(Sampling(1.0, 5, top_p=0.9), 150_000)


def test_each_token_has_its_own_logprob_and_version():
    c = to_completion(output([7, 1], [{7: -0.5, 3: -0.1}, {1: -2.0}]), PLAIN, 100)
    assert c.token_ids == (7, 1) and c.logprobs == (-0.5, -2.0) and c.versions == (4, 4)
    assert c.finish_reason == "stop" and c.kept_token_ids is None


def test_older_engines_return_dicts():
    given = output([7], [])
    given.logprobs = [{7: SimpleNamespace(logprob=-0.5), 3: SimpleNamespace(logprob=-0.1)}]
    assert to_completion(given, PLAIN, 100).logprobs == (-0.5,)


def test_tokens_that_truncation_left_out_are_not_in_the_kept_set():
    rows = [{7: -0.5, 3: -1.0, 8: -math.inf}, {2: 0.0, 5: -math.inf, 6: -math.inf}]
    c = to_completion(output([7, 2], rows), Sampling(0.7, 5, top_p=0.5), 100)
    assert c.kept_token_ids == ((3, 7), (2,))


def test_more_ties_than_were_asked_for_are_an_error():
    rows = [{t: -1.0 for t in range(2 + TIES)}]
    with pytest.raises(ValueError, match="tie"):
        to_completion(output([0], rows), Sampling(1.0, 5, top_k=2), 100)


@pytest.mark.parametrize(
    "broken",
    [
        output([7, 1], [{7: -0.5}]),
        output([7], [{7: -0.5}], finish_reason="abort"),
        output([7], [{7: -0.5}], finish_reason=None),
        output([7], [{7: -0.5}], spans=()),
    ],
)
def test_a_token_without_logprob_or_version_and_a_strange_end_are_errors(broken):
    with pytest.raises(ValueError, match=r"logprobs|ended|span"):
        to_completion(broken, PLAIN, 100)


def test_scores_start_at_the_second_token():
    one, two, three = (SimpleNamespace(logprob=p) for p in (-1.0, -0.1, -3.0))
    assert to_scores([None, {6: one, 2: two}, {7: three}], [5, 6, 7]) == (-1.0, -3.0)
