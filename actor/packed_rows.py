"""How sequences lie in a packed row: a prompt, then each of its completions, each at the positions after the prompt.

```
row        p p p a a b b b q q c c        runs (3, (2, 3)) and (2, (2,))
position   0 1 2 3 4 3 4 5 0 1 2 3
```
A run holds one completion, or all completions of a micro-batch that share a prompt: the prompt is then computed once
for all of them, forward and backward. Attention keeps completions apart: each sees the prompt and itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch


@dataclass(frozen=True)
class Run:
    """Consecutive tokens of a row: a prompt of P tokens and its completions of R tokens each."""

    prompt: int
    responses: tuple[int, ...]

    @property
    def num_tokens(self) -> int:
        """P plus the R of every completion: the prompt counts once."""
        return self.prompt + sum(self.responses)

    @property
    def longest(self) -> int:
        """Tokens of its longest sequence."""
        return self.prompt + max(self.responses)

    def mask(self, window: int | None) -> torch.Tensor:
        """[num_tokens, num_tokens] bool, true where a token (row) sees another (column)."""
        lengths = [self.prompt, *self.responses]
        owner = np.repeat(np.arange(-1, len(self.responses)), lengths)
        position = np.concatenate([np.arange(self.prompt), *(self.prompt + np.arange(r) for r in self.responses)])
        distance = position[:, None] - position
        seen = ((owner == -1) | (owner[:, None] == owner)) & (distance >= 0)
        return torch.from_numpy(seen if window is None else seen & (distance < window))


@dataclass(frozen=True)
class PackedRow:
    """The runs of a row, in order, and their masks, made once for all layers of a network."""

    runs: tuple[Run, ...]
    _masks: dict[tuple[object, ...], torch.Tensor] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def of(lengths: Sequence[int]) -> "PackedRow":
        """Whole sequences of these lengths, none of which shares anything."""
        return PackedRow(tuple(Run(0, (n,)) for n in lengths))

    @property
    def num_tokens(self) -> int:
        """Tokens of the row, N: over all of its runs."""
        return sum(run.num_tokens for run in self.runs)

    @property
    def sequence_lengths(self) -> tuple[int, ...]:
        """Of a row whose prompts are not shared; they sum to its tokens."""
        assert all(len(run.responses) == 1 for run in self.runs)
        return tuple(run.num_tokens for run in self.runs)

    def bias(self, index: int, window: int | None, like: torch.Tensor) -> torch.Tensor:
        """What to add to the scores of the run at `index`: 0 where `Run.mask` is true, else −∞, of the type of `like`.

        A mask of truth values would be turned into this again in every layer.
        """
        key = (index, window, like.dtype, like.device)
        if key not in self._masks:
            hidden = ~self.runs[index].mask(window).to(like.device)
            zeros = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
            self._masks[key] = zeros.masked_fill(hidden, -torch.inf)
        return self._masks[key]
