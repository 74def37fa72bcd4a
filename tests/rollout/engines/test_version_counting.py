"""Versions of tokens from engines that do not label their weights."""

import asyncio
from dataclasses import dataclass, field

import pytest

from rollout.engines.version_boundaries import Census, RequestBook, Span, VersionBoundaries


@dataclass
class Request:
    output_token_ids: list[int] = field(default_factory=list)


def spans(*triples: tuple[str, int, int]) -> tuple[Span, ...]:
    return tuple(Span(*t) for t in triples)


def test_the_census_counts_what_was_sampled_and_remembers_who_left() -> None:
    book = RequestBook({"a": Request([1, 2]), "b": Request([1]), "c": Request()})
    book["d"] = Request([7] * 5)
    book.pop("b", None)
    book.pop("unknown", None)
    del book["c"]
    assert book.take_census() == Census({"a": 2, "d": 5}, frozenset({"b", "c"}))
    assert book.take_census().ended == frozenset(), "who left is reported once"


def test_a_request_is_split_where_the_weights_changed() -> None:
    async def story() -> tuple[Span, ...]:
        boundaries = VersionBoundaries(3)
        boundaries.open("r")
        boundaries.change(4, Census({"r": 10}, frozenset()))
        boundaries.change(5, Census({"r": 12}, frozenset()))
        return await boundaries.close("r", 20)

    assert asyncio.run(story()) == spans(("3", 0, 10), ("4", 10, 12), ("5", 12, 20))


def test_absent_means_ended_before_or_not_begun() -> None:
    async def story() -> list[tuple[Span, ...]]:
        boundaries = VersionBoundaries(0)
        for name in ("ended", "waiting"):
            boundaries.open(name)
        boundaries.change(1, Census({}, frozenset({"ended"})))
        boundaries.open("later")
        return [await boundaries.close(name, 4) for name in ("ended", "waiting", "later")]

    assert asyncio.run(story()) == [spans(("0", 0, 4)), spans(("1", 0, 4)), spans(("1", 0, 4))]


def test_a_boundary_at_either_end_makes_no_empty_span() -> None:
    async def story() -> list[tuple[Span, ...]]:
        boundaries = VersionBoundaries(0)
        boundaries.open("a")
        boundaries.open("b")
        boundaries.change(1, Census({"a": 0, "b": 6}, frozenset()))
        return [await boundaries.close("a", 5), await boundaries.close("b", 6)]

    assert asyncio.run(story()) == [spans(("1", 0, 5)), spans(("0", 0, 6))]


def test_a_request_that_ends_during_a_change_waits_for_its_boundary() -> None:
    async def story() -> tuple[Span, ...]:
        boundaries = VersionBoundaries(0)
        boundaries.open("r")
        boundaries.begin_change()
        closing = asyncio.create_task(boundaries.close("r", 8))
        await asyncio.sleep(0)
        assert not closing.done()
        boundaries.change(1, Census({"r": 7}, frozenset()))
        boundaries.end_change()
        return await closing

    assert asyncio.run(story()) == spans(("0", 0, 7), ("1", 7, 8))


def test_a_failed_change_lets_requests_end_under_the_old_label() -> None:
    async def story() -> tuple[Span, ...]:
        boundaries = VersionBoundaries(0)
        boundaries.open("r")
        boundaries.begin_change()
        boundaries.end_change()
        return await asyncio.wait_for(boundaries.close("r", 3), 1)

    assert asyncio.run(story()) == spans(("0", 0, 3))


def test_a_request_cannot_be_open_twice() -> None:
    boundaries = VersionBoundaries(0)
    boundaries.open("r")
    with pytest.raises(AssertionError, match="open already"):
        boundaries.open("r")
    boundaries.forget("r")
    boundaries.open("r")
