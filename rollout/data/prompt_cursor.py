"""The order of prompts: every prompt once per epoch, shuffled by seed and epoch."""

import hashlib
import json
import random
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from exchange.types import Prompt


class PromptCursor:
    """An endless, resumable walk through the prompts. Epochs count from 0.

    Prompts that were put back are served first, in the order they came back, under the epoch they belong to.
    """

    def __init__(self, prompts: Sequence[Prompt], seed: int) -> None:
        if not prompts:
            raise ValueError("the data set holds no prompts; a cursor needs at least one")
        self._prompts = {p.prompt_id: p for p in prompts}
        assert len(self._prompts) == len(prompts), "prompt ids are unique within a data set"
        self._seed = seed
        self._returned: deque[tuple[int, str]] = deque()
        self._start(epoch=0, position=0)

    def _start(self, epoch: int, position: int) -> None:
        self._epoch, self._position = epoch, position
        self._order = list(self._prompts)
        # A text seed is hashed by content, so that order depends on neither process nor platform.
        random.Random(f"{self._seed}/{epoch}").shuffle(self._order)

    def next(self) -> tuple[int, Prompt]:
        """The next prompt and its epoch."""
        if self._returned:
            epoch, prompt_id = self._returned.popleft()
            return epoch, self._prompts[prompt_id]
        if self._position == len(self._order):
            self._start(self._epoch + 1, 0)
        prompt_id = self._order[self._position]
        self._position += 1
        return self._epoch, self._prompts[prompt_id]

    def put_back(self, epoch: int, prompt: Prompt) -> None:
        """Ask a prompt again in place of the time it was served in `epoch`."""
        assert prompt.prompt_id in self._prompts, f"{prompt.prompt_id} is no prompt of this data set"
        assert epoch <= self._epoch, f"epoch {epoch} has not begun"
        assert (epoch, prompt.prompt_id) not in self._returned, f"{prompt.prompt_id} was put back twice"
        self._returned.append((epoch, prompt.prompt_id))

    def state_dict(self) -> dict[str, Any]:
        """Where the walk stands, as JSON can hold it."""
        return {
            "epoch": self._epoch,
            "position": self._position,
            "returned": [list(item) for item in self._returned],
            "seed": self._seed,
            "rows": self._rows,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume where `state_dict` was taken.

        Raises:
            ValueError: when that walk was over other rows or with another seed.
        """
        if state["seed"] != self._seed:
            raise ValueError(f"run.seed={self._seed} differs from {state['seed']} of the checkpoint; set it to that")
        if state["rows"] != self._rows:
            raise ValueError(
                "dataset.path: the prompts differ from those of the checkpoint; restore the data set and its settings, "
                "or start a new run in another run.dir"
            )
        self._start(state["epoch"], state["position"])
        self._returned = deque((epoch, prompt_id) for epoch, prompt_id in state["returned"])

    @cached_property
    def _rows(self) -> str:
        """Digest of what the data set holds. Token ids are not part of it: a chat template may write the date."""
        digest = hashlib.sha256()
        for prompt in self._prompts.values():
            row = [prompt.prompt_id, prompt.text, prompt.answer, prompt.row]
            digest.update(json.dumps(row, default=str, ensure_ascii=False).encode(errors="surrogatepass"))
        return digest.hexdigest()
