"""A finished completion in the shape that newer engines return, so that one conversion serves all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollout.engines.version_boundaries import Span


@dataclass(frozen=True)
class FinishedOutput:
    """R output tokens; `logprobs[t]` maps token ids to objects with a `.logprob`."""

    token_ids: Sequence[int]  # [R]
    logprobs: Sequence[Mapping[int, Any]]  # [R]
    finish_reason: str
    weight_versions: tuple[Span, ...]
