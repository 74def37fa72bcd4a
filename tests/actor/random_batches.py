"""Random micro-batches for the tests of the objective."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from actor.batch import Denominators, TokenBatch


@dataclass(frozen=True)
class Case:
    """A micro-batch with the log-probabilities of every policy, all [T]."""

    tokens: TokenBatch
    logprobs: torch.Tensor
    proximal: torch.Tensor
    ref: torch.Tensor
    entropy: torch.Tensor

    @property
    def denominators(self) -> Denominators:
        present = self.tokens.sequence[self.tokens.mask].unique()
        return Denominators(float(max(1, int(self.tokens.mask.sum()))), float(max(1, len(present))))


def batch(
    sequence: list[int],
    behavior: list[float],
    advantages: list[float],
    mask: list[int] | None = None,
    versions: list[int] | None = None,
    dtype: torch.dtype = torch.float64,
) -> TokenBatch:
    """A micro-batch from lists; by default every token counts and was sampled by version 0."""
    n = len(sequence)
    return TokenBatch(
        mask=torch.tensor([1] * n if mask is None else mask, dtype=torch.bool),
        sequence=torch.tensor(sequence, dtype=torch.int64),
        num_sequences=max(sequence, default=-1) + 1,
        behavior_logprobs=torch.tensor(behavior, dtype=dtype),
        versions=torch.tensor([0] * n if versions is None else versions, dtype=torch.int64),
        advantages=torch.tensor(advantages, dtype=dtype),
    )


def random_case(seed: int, num_sequences: int = 4, dtype: torch.dtype = torch.float64, spread: float = 0.4) -> Case:
    """Sequences of 1 to 6 tokens, a fifth of them outside the mask, one advantage a sequence, versions 0 to 3."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, num_sequences)
    sequence = np.repeat(np.arange(num_sequences), lengths)
    n = len(sequence)
    behavior = -rng.uniform(0.01, 4.0, n)
    proximal = np.minimum(behavior + spread * rng.normal(size=n), -1e-4)
    logprobs = np.minimum(proximal + spread * rng.normal(size=n), -1e-4)
    versions = np.concatenate([np.sort(rng.integers(0, 4, length)) for length in lengths])
    tokens = TokenBatch(
        mask=torch.tensor(rng.uniform(size=n) < 0.8),
        sequence=torch.tensor(sequence),
        num_sequences=num_sequences,
        behavior_logprobs=torch.tensor(behavior, dtype=dtype),
        versions=torch.tensor(versions),
        advantages=torch.tensor(rng.normal(size=num_sequences)[sequence], dtype=dtype),
    )
    return Case(
        tokens=tokens,
        logprobs=torch.tensor(logprobs, dtype=dtype),
        proximal=torch.tensor(proximal, dtype=dtype),
        ref=torch.tensor(np.minimum(logprobs + spread * rng.normal(size=n), -1e-4), dtype=dtype),
        entropy=torch.tensor(rng.uniform(0, 3, n), dtype=dtype),
    )


def part(case: Case, sequences: list[int]) -> Case:
    """The same data for some sequences only, in the order given, renumbered from 0."""
    index = torch.cat([(case.tokens.sequence == s).nonzero()[:, 0] for s in sequences] or [torch.zeros(0).long()])
    new_number = {old: new for new, old in enumerate(sequences)}
    t = case.tokens
    tokens = replace(
        t,
        mask=t.mask[index],
        sequence=torch.tensor([new_number[int(s)] for s in t.sequence[index]], dtype=torch.int64),
        num_sequences=len(sequences),
        behavior_logprobs=t.behavior_logprobs[index],
        versions=t.versions[index],
        advantages=t.advantages[index],
    )
    return Case(tokens, case.logprobs[index], case.proximal[index], case.ref[index], case.entropy[index])
