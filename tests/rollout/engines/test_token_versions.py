from dataclasses import dataclass

import pytest

from rollout.engines.sampling import token_versions


@dataclass
class Span:
    version: str
    start: int
    end: int


def test_spans_become_one_version_per_token():
    assert token_versions([Span("3", 0, 2), Span("4", 2, 3), Span("7", 3, 5)], 5) == (3, 3, 4, 7, 7)


def test_no_tokens_need_no_span():
    assert token_versions(None, 0) == ()
    assert token_versions([Span("2", 0, 0)], 0) == ()


@pytest.mark.parametrize(
    "spans",
    [
        None,
        [Span("0", 0, 2)],  # the last token is not covered
        [Span("0", 1, 3)],  # the first token is not covered
        [Span("0", 0, 1), Span("1", 2, 3)],  # a hole
        [Span("0", 0, 2), Span("1", 1, 3)],  # an overlap
        [Span("1", 0, 1), Span("0", 1, 3)],  # backwards
        [Span("default", 0, 3)],  # weights that nobody labelled
        [Span("0", 0, 4)],  # more tokens than there are
    ],
)
def test_a_token_without_a_sure_version_is_an_error(spans):
    with pytest.raises(ValueError, match=r"token|span"):
        token_versions(spans, 3)
