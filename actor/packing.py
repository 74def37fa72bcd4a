"""Sequences into micro-batches by a token budget, and one micro-batch into a row without padding."""

from collections.abc import Sequence

import torch

from actor.batch import MicroBatch, TokenBatch, TrainSequence

Plan = list[list[list[list[TrainSequence]]]]  # [rank][minibatch][micro-batch][sequence]


def plan(sequences_per_minibatch: Sequence[Sequence[TrainSequence]], num_ranks: int, max_tokens: int) -> Plan:
    """Distribute each minibatch over ranks and micro-batches of at most `max_tokens` tokens.

    All ranks get the same number of micro-batches (collectives need it), about equally long ones
    at the same index. A sequence longer than the budget has a micro-batch to itself; none is cut.
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
    """As few evenly filled bins, a multiple of `multiple`, as keep the budget (longest first, into the emptiest)."""
    longest_first = sorted(sequences, key=lambda s: s.num_tokens, reverse=True)
    capped = sum(min(s.num_tokens, max_tokens) for s in longest_first)
    num_bins = max(1, -(-capped // (max_tokens * multiple))) * multiple
    while True:
        bins: list[list[TrainSequence]] = [[] for _ in range(num_bins)]
        loads = [0] * num_bins
        for sequence in longest_first:
            target = loads.index(min(loads))
            bins[target].append(sequence)
            loads[target] += sequence.num_tokens
        if all(load <= max_tokens or len(part) == 1 for load, part in zip(loads, bins, strict=True)):
            return bins
        num_bins += multiple


def pack(sequences: Sequence[TrainSequence]) -> MicroBatch:
    """One row of the sequences, one after another. Without sequences, a row of one token and no response."""
    input_ids: list[int] = []
    position_ids: list[int] = []
    response_index: list[int] = []
    for sequence in sequences:
        if not sequence.prompt_token_ids:
            raise ValueError("a training sequence has no prompt token, so its first response token has no predictor")
        start, prompt = len(input_ids), len(sequence.prompt_token_ids)
        input_ids += sequence.prompt_token_ids + sequence.response_token_ids
        position_ids += range(sequence.num_tokens)
        response_index += range(start + prompt, start + sequence.num_tokens)
    lengths = tuple(s.num_tokens for s in sequences)
    if not sequences:
        input_ids, position_ids, lengths = [0], [0], (1,)
    return MicroBatch(
        input_ids=torch.tensor(input_ids),
        position_ids=torch.tensor(position_ids),
        response_index=torch.tensor(response_index, dtype=torch.int64),
        sequence_lengths=lengths,
        tokens=_tokens(sequences),
        kept_token_ids=_kept_token_ids(sequences),
    )


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
