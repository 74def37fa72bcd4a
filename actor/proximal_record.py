"""The proximal log-probabilities of a step, sequence by sequence, for whoever looks at a completion afterwards.

They are those that the step has computed anyway, by a forward pass at version v: a recomputed one, or the training
forward of minibatch 0, before the first update. What an approximation put in their place is no measurement and is left
out, and with it the later minibatches of `loglinear`, `linear` and standard PPO.
"""

from collections.abc import Sequence

import torch

from actor.batch import TrainSequence

ProximalLogprobs = dict[tuple[int, int], list[float]]  # (group, sample) of a sequence → [R]

DECIMALS = 7  # those of float32 near 1; the rest would make half of what is written


def proximal_record(
    minibatches: Sequence[Sequence[Sequence[TrainSequence]]], measured: Sequence[Sequence[torch.Tensor | None]]
) -> ProximalLogprobs:
    """By the sequences' names, whatever the packing.

    Args:
        minibatches: this rank's share `[minibatch][micro-batch][sequence]`.
        measured: [T] of each micro-batch `[minibatch][micro-batch]`, None where no forward at version v was made.
    """
    record: ProximalLogprobs = {}
    for parts, values in zip(minibatches, measured, strict=True):
        for part, logprobs in zip(parts, values, strict=True):
            if logprobs is not None:
                record |= _of_part(part, logprobs)
    return record


def _of_part(part: Sequence[TrainSequence], logprobs: torch.Tensor) -> ProximalLogprobs:
    rounded = logprobs.detach().cpu().double().round(decimals=DECIMALS)
    values = rounded.split([len(s.response_token_ids) for s in part])
    return {(s.group, s.sample): v.tolist() for s, v in zip(part, values, strict=True) if bool(v.isfinite().all())}
