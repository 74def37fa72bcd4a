"""How many tokens each request had when the weights changed, counted where they are sampled."""

from collections.abc import Mapping
from dataclasses import dataclass
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
