"""Sequences into micro-batches by a token budget, and one micro-batch into a row without padding."""

import itertools
from bisect import bisect_left
from collections.abc import Sequence

import torch

from actor.batch import MicroBatch, TokenBatch, TrainSequence
from actor.packed_rows import PackedRow, Run

Plan = list[list[list[list[TrainSequence]]]]  # [rank][minibatch][micro-batch][sequence]


def plan(sequences_per_minibatch: Sequence[Sequence[TrainSequence]], num_ranks: int, max_tokens: int) -> Plan:
    """Distribute each minibatch over ranks and micro-batches of at most `max_tokens` tokens.

    All ranks get the same number of micro-batches (collectives need it), about equally long ones
    at the same index. A sequence longer than the budget has a micro-batch to itself; none is cut.
    The budget counts every prompt, also those that a micro-batch then computes only once.
    A micro-batch is empty only where fewer sequences than micro-batches are left.
    Raises ValueError when `num_ranks` or `max_tokens` is not positive.
    """
    if num_ranks < 1:
        raise ValueError(f"actor.num_workers={num_ranks} must be at least 1")
    if max_tokens < 1:
        raise ValueError(f"actor.max_tokens_per_microbatch={max_tokens} must be at least 1")
    ranks: Plan = [[] for _ in range(num_ranks)]
    for sequences in sequences_per_minibatch:
        bins = _fill_bins(sequences, num_ranks, max_tokens)
        bins.sort(key=_num_tokens, reverse=True)
        for rank in ranks:
            rank.append([])
        for index in range(0, len(bins), num_ranks):
            # Every other round is dealt backwards, so that no rank always gets the longest.
            row = bins[index : index + num_ranks]
            for rank, part in zip(ranks, row if index // num_ranks % 2 == 0 else row[::-1], strict=True):
                rank[-1].append(part)
    return ranks


def _num_tokens(sequences: Sequence[TrainSequence]) -> int:
    return sum(s.num_tokens for s in sequences)


def _fill_bins(sequences: Sequence[TrainSequence], multiple: int, max_tokens: int) -> list[list[TrainSequence]]:
    """As few bins, a multiple of `multiple`, as keep the budget, the fullest as empty as it can be.

    Sequences with the same prompt lie next to each other, and a bin is a stretch of that order: a group is divided
    only where one bin ends and the next begins.
    """
    ordered = _by_prompt(sequences)
    num_bins = max(1, -(-len(_stretches(ordered, max_tokens)) // multiple)) * multiple
    least = max((s.num_tokens for s in ordered if s.num_tokens <= max_tokens), default=max_tokens)
    limits = range(least, max_tokens + 1)
    enough = bisect_left(limits, True, key=lambda limit: len(_stretches(ordered, limit)) <= num_bins)
    bins = _stretches(ordered, limits[min(enough, len(limits) - 1)])
    while len(bins) < num_bins and (divisible := [i for i, part in enumerate(bins) if len(part) > 1]):
        fullest = max(divisible, key=lambda i: _num_tokens(bins[i]))
        bins[fullest : fullest + 1] = _halves(bins[fullest])
    return bins + [[] for _ in range(num_bins - len(bins))]


def _by_prompt(sequences: Sequence[TrainSequence]) -> list[TrainSequence]:
    """The same, those with the same prompt next to each other."""
    first: dict[tuple[int, ...], int] = {}
    for index, sequence in enumerate(sequences):
        first.setdefault(sequence.prompt_token_ids, index)
    return sorted(sequences, key=lambda s: first[s.prompt_token_ids])


def _stretches(sequences: Sequence[TrainSequence], limit: int) -> list[list[TrainSequence]]:
    """Cut into as few stretches of at most `limit` tokens as there can be; a longer sequence is one by itself."""
    stretches: list[list[TrainSequence]] = []
    filled = limit
    for sequence in sequences:
        if filled + sequence.num_tokens > limit:
            stretches.append([])
            filled = 0
        stretches[-1].append(sequence)
        filled += sequence.num_tokens
    return stretches


def _halves(sequences: list[TrainSequence]) -> list[list[TrainSequence]]:
    """Two stretches, neither empty, as alike in tokens as can be."""
    total, ends = _num_tokens(sequences), list(itertools.accumulate(s.num_tokens for s in sequences))
    cut = 1 + min(range(len(ends) - 1), key=lambda i: abs(2 * ends[i] - total))
    return [sequences[:cut], sequences[cut:]]


def pack(sequences: Sequence[TrainSequence], share_prompts: bool = False) -> MicroBatch:
    """One row of the sequences, one after another. Without sequences, a row of one token and no response.

    `share_prompts`: consecutive sequences with the same prompt have it once, before their completions.
    """
    input_ids: list[int] = []
    position_ids: list[int] = []
    response_index: list[int] = []
    predictor_index: list[int] = []
    runs: list[Run] = []
    for together in _shared(sequences, share_prompts):
        prompt = together[0].prompt_token_ids
        if not prompt:
            raise ValueError("a training sequence has no prompt token, so its first response token has no predictor")
        input_ids += prompt
        position_ids += range(len(prompt))
        last_of_prompt = len(input_ids) - 1
        for response in (s.response_token_ids for s in together):
            start, length = len(input_ids), len(response)
            input_ids += response
            position_ids += range(len(prompt), len(prompt) + length)
            response_index += range(start, start + length)
            predictor_index += [last_of_prompt, *range(start, start + length - 1)][:length]
        runs.append(Run(len(prompt), tuple(len(s.response_token_ids) for s in together)))
    if not sequences:
        input_ids, position_ids, runs = [0], [0], [Run(0, (1,))]
    return MicroBatch(
        input_ids=torch.tensor(input_ids),
        position_ids=torch.tensor(position_ids),
        response_index=torch.tensor(response_index, dtype=torch.int64),
        predictor_index=torch.tensor(predictor_index, dtype=torch.int64),
        row=PackedRow(tuple(runs)),
        tokens=_tokens(sequences),
        kept_token_ids=_kept_token_ids(sequences),
    )


def _shared(sequences: Sequence[TrainSequence], share_prompts: bool) -> list[list[TrainSequence]]:
    if not share_prompts:
        return [[s] for s in sequences]
    return [list(same) for _, same in itertools.groupby(sequences, key=lambda s: s.prompt_token_ids)]


def _tokens(sequences: Sequence[TrainSequence]) -> TokenBatch:
    counts = torch.tensor([len(s.response_token_ids) for s in sequences], dtype=torch.int64)

    def flat(name: str, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor([x for s in sequences for x in getattr(s, name)], dtype=dtype)

    return TokenBatch(
        mask=flat("mask", torch.bool),
        sequence=torch.repeat_interleave(torch.arange(len(sequences)), counts),
        num_sequences=len(sequences),
        behavior_logprobs=flat("behavior_logprobs", torch.float32),
        versions=flat("versions", torch.int64),
        advantages=flat("advantages", torch.float32),
    )


def _kept_token_ids(sequences: Sequence[TrainSequence]) -> tuple[tuple[int, ...], ...] | None:
    """[T][kept], or None when no sequence was sampled from a truncated distribution."""
    if all(s.kept_token_ids is None for s in sequences):
        return None
    kept: list[tuple[int, ...]] = []
    for sequence in sequences:
        if sequence.kept_token_ids is None:
            raise ValueError("a micro-batch mixes sequences with and without kept_token_ids")
        for token, ids in zip(sequence.response_token_ids, sequence.kept_token_ids, strict=True):
            kept.append(ids if token in ids else (*ids, token))
    return tuple(kept)
