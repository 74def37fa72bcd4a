"""Per-token versions for an engine that does not label its weights: counted at each change of the weights.

How many tokens each request had when the weights changed, counted where they are sampled.
"""

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

V = TypeVar("V")


@dataclass(frozen=True)
class Census:
    """The requests of an engine at one boundary between two of its steps."""

    num_tokens: Mapping[str, int]  # running request → output tokens sampled so far
    ended: frozenset[str]  # requests that left since the boundary before


class RequestBook(dict[str, V]):
    """The model runner's dict of requests, remembering which ones left it.

    A request that is not in the dict has either ended or never started; the tokens of the first were sampled by the
    weights before, those of the second will be sampled by the weights after.
    """

    def __init__(self, running: Mapping[str, V]) -> None:
        super().__init__(running)
        self._left: set[str] = set()

    def pop(self, key: str, *default: Any) -> Any:
        if key in self:
            self._left.add(key)
        return super().pop(key, *default)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._left.add(key)

    def take_census(self) -> Census:
        """Counts at this moment; forgets the requests that left."""
        counts = {name: len(request.output_token_ids) for name, request in self.items()}  # type: ignore[attr-defined]
        ended, self._left = frozenset(self._left), set()
        return Census(counts, ended)


@dataclass(frozen=True)
class Span:
    """Output tokens [start, end) were sampled by the weights labelled `version`; as newer engines report them."""

    version: str
    start: int
    end: int


@dataclass
class _Request:
    first_version: int
    changes: list[tuple[int, int]] = field(default_factory=list)  # (tokens sampled before it, version from it on)


class VersionBoundaries:
    """Owner of the invariant that a token's version is that of the weights loaded when it was sampled.

    ```
    boundaries.open(request)        # before the engine gets to know it
    boundaries.begin_change()       # before the weights are touched
    boundaries.change(7, census)    # the census was taken in the engine, at the boundary itself
    boundaries.end_change()         # also when it failed
    await boundaries.close(request, num_tokens)
    ```
    """

    def __init__(self, first_version: int) -> None:
        self._version = first_version
        self._open: dict[str, _Request] = {}
        self._still = asyncio.Event()
        self._still.set()

    def open(self, request_id: str) -> None:
        """The request is about to be sent to the engine."""
        assert request_id not in self._open, f"request {request_id} is open already"
        self._open[request_id] = _Request(self._version)

    def begin_change(self) -> None:
        """From here to `end_change` no request is closed: its last boundary may not be known yet."""
        self._still.clear()

    def change(self, version: int, census: Census) -> None:
        """The weights became `version` when the engine stood as `census` says."""
        for request_id, request in self._open.items():
            if request_id in census.num_tokens:
                request.changes.append((census.num_tokens[request_id], version))
            elif request_id not in census.ended:
                request.changes.append((0, version))
        self._version = version

    def end_change(self) -> None:
        """Requests can be closed again; called after every `begin_change`, also when the update failed."""
        self._still.set()

    async def close(self, request_id: str, num_tokens: int) -> tuple[Span, ...]:
        """Spans over the request's output tokens, oldest first."""
        await self._still.wait()
        return spans_of(self._open.pop(request_id), num_tokens)

    def forget(self, request_id: str) -> None:
        """The request was cancelled."""
        self._open.pop(request_id, None)


def spans_of(request: _Request, num_tokens: int) -> tuple[Span, ...]:
    """Contiguous spans over [0, num_tokens); versions that sampled no token have none."""
    edges = [(0, request.first_version), *request.changes, (num_tokens, 0)]
    spans = []
    for (start, version), (end, _) in itertools.pairwise(edges):
        start, end = min(start, num_tokens), min(end, num_tokens)
        if end > start:
            spans.append(Span(str(version), start, end))
    return tuple(spans)
