"""What every engine adapter offers to the rollout worker."""

from collections.abc import Sequence
from typing import Protocol

from exchange.types import Completion, Sampling, UpdateReport, WeightUpdate


class Engine(Protocol):
    """An inference engine whose weights are replaced while requests are in flight.

    The ordering invariant of `update`, which no caller can break because the adapter owns all of it:

        pause (keep requests and cache) → load → check what was loaded against what was sent → label v
        → resume, in a `finally` → probe against the trainer → `version = v`

    Hence a token labelled v was sampled by weights that were checked to be those of v, and a completion that
    holds such tokens is handed out only after the probe of v has agreed. When any phase fails, the requests in
    flight end with `EngineUnusable`, `update` raises `UpdateFailed`, and the engine serves nothing any more.
    """

    version: int  # newest version whose weights were verified, probe included

    async def start(self) -> None:
        """Load the model and label its weights with the first version.

        Raises:
            TimeoutError: the engine did not start within `rollout.startup_timeout_s`.
        """
        ...

    async def generate(self, request_id: str, prompt_token_ids: Sequence[int], sampling: Sampling) -> Completion:
        """Sample one completion of `prompt_token_ids` [P].

        Raises:
            ValueError: the prompt leaves no room for `sampling.max_new_tokens`.
            EngineUnusable: the engine died or an update failed.
        """
        ...

    async def update(self, update: WeightUpdate) -> UpdateReport:
        """Replace the weights in flight; see the class for the order.

        Raises:
            UpdateFailed: some phase failed or took too long; the engine is unusable from then on.
        """
        ...

    async def score(self, token_ids: Sequence[int]) -> tuple[float, ...]:
        """Teacher-forced log-probabilities at temperature 1 of tokens 1..N-1 of `token_ids` [N] → [N-1]."""
        ...

    async def close(self) -> None:
        """End the engine's processes; safe to call twice."""
        ...
