"""From the engine's weight-version spans to one version per token."""

from collections.abc import Sequence
from typing import Protocol


class VersionSpan(Protocol):
    """Output tokens [start, end) were sampled by the weights labelled `version`."""

    version: str
    start: int
    end: int


def token_versions(spans: Sequence[VersionSpan] | None, num_tokens: int) -> tuple[int, ...]:
    """One version per output token → [R].

    Args:
        spans: contiguous spans over the output tokens, oldest first; None when the engine reported none.
        num_tokens: R, the number of output tokens.

    Raises:
        ValueError: a token has no version or two, a label is not a number, or labels run backwards. A version is
            stamped where the token is sampled and must never be guessed later.
    """
    versions: list[int] = []
    for span in spans or ():
        if span.start != len(versions) or span.end < span.start:
            raise ValueError(f"weight-version span [{span.start}, {span.end}) does not follow token {len(versions)}")
        if not span.version.isdecimal():
            raise ValueError(f"weights labelled {span.version!r} sampled tokens {span.start}..{span.end - 1}")
        version = int(span.version)
        if versions and version < versions[-1]:
            raise ValueError(f"weight version runs backwards from {versions[-1]} to {version} at token {span.start}")
        versions.extend([version] * (span.end - span.start))
    if len(versions) != num_tokens:
        raise ValueError(f"weight-version spans cover {len(versions)} of {num_tokens} tokens")
    return tuple(versions)
