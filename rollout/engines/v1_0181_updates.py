"""Weight updates of vLLM 0.18.1 in the words of `rollout.in_flight_update`, with versions counted at the boundary."""

from typing import Any

from rollout.engines.received_weights import plain_update
from rollout.engines.request_book import Census
from rollout.engines.version_boundaries import VersionBoundaries
from rollout.types import WeightUpdate


class PausableV1:
    """`AsyncLLM` of 0.18.1 as an update sees it; everything else is passed through.

    `pause_mode` is vLLM's (keep, wait, abort), or none: then the weights change between two steps without a pause.
    """

    def __init__(self, llm: Any, boundaries: VersionBoundaries, pause_mode: str, clear_cache: bool) -> None:
        self._llm, self._boundaries = llm, boundaries
        self._pause_mode, self._clear_cache = pause_mode, clear_cache
        self._census = Census({}, frozenset())

    async def pause_generation(self, mode: str, clear_cache: bool) -> None:
        """Pause as the run is configured; what the caller asks for is what the configuration is by default."""
        self._boundaries.begin_change()
        if self._pause_mode != "none":
            await self._llm.pause_generation(mode=self._pause_mode, clear_cache=self._clear_cache)

    async def load(self, update: WeightUpdate) -> None:
        """Load into every rank, and keep how many tokens each request had sampled by then."""
        replies = await self._llm.collective_rpc("load_published", args=plain_update(update))
        counts = replies[0]  # every rank runs the same requests
        by_our_name = {_our_name(name): n for name, n in counts["num_tokens"].items()}
        self._census = Census(by_our_name, frozenset(_our_name(name) for name in counts["ended"]))

    async def update_weight_version(self, label: str) -> None:
        self._boundaries.change(int(label), self._census)

    async def resume_generation(self) -> None:
        self._boundaries.end_change()
        if self._pause_mode != "none":
            await self._llm.resume_generation()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._llm, name)


def _our_name(internal: str) -> str:
    """vLLM 0.18.1 appends a dash and a random suffix to each request id."""
    return internal.rpartition("-")[0]
