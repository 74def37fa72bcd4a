"""How old the tokens were that a run trained on, counted from its trajectories."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class TokenHistograms:
    """Counts over the tokens in the loss (`loss_mask` 1) of the files that were read."""

    lags: Counter[int] = field(default_factory=Counter)  # lag → tokens
    versions: Counter[int] = field(default_factory=Counter)  # behavior version → tokens
    versions_a_completion: Counter[int] = field(default_factory=Counter)  # versions met → completions
    num_files: int = 0

    def add(self, trajectories: Iterable[Mapping[str, Any]]) -> None:
        """Count the trajectories of one file. Those of step s were consumed by version s − 1."""
        self.num_files += 1
        for row in trajectories:
            consumer = int(row["step"]) - 1
            mask: Sequence[int] = row.get("loss_mask") or [1] * len(row["versions"])
            tokens = Counter(v for v, m in zip(row["versions"], mask, strict=True) if m)
            if not tokens:
                continue
            self.versions.update(tokens)
            self.versions_a_completion[len(tokens)] += 1
            for version, count in tokens.items():
                self.lags[consumer - version] += count


@dataclass(frozen=True)
class Bin:
    """Versions first..last (inclusive) and the tokens that they sampled."""

    first: int
    last: int
    count: int


def version_bins(versions: Mapping[int, int], max_bins: int) -> list[Bin]:
    """Tokens by behavior version in at most `max_bins` bins of equally many versions, empty ones included."""
    if not versions:
        return []
    first, last = min(versions), max(versions)
    width = -(-(last - first + 1) // max_bins)
    counts: Counter[int] = Counter()
    for version, count in versions.items():
        counts[(version - first) // width] += count
    num_bins = (last - first) // width + 1
    return [Bin(first + i * width, min(last, first + (i + 1) * width - 1), counts[i]) for i in range(num_bins)]


def shares(counts: Mapping[int, int]) -> dict[int, float]:
    """Fractions of the total, in order of keys."""
    total = sum(counts.values())
    return {key: counts[key] / total for key in sorted(counts)} if total else {}
