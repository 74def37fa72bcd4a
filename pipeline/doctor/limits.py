"""How far the two halves may differ, by type of the body's weights. The lm_head is float32 in both."""

from dataclasses import dataclass, replace

from configs.schema import Config


@dataclass(frozen=True)
class Limits:
    """Mean |difference| of logprobs per token, except `relative`. docs/consistency.md has the measurements."""

    residue: float  # sampler against trainer, same weights, the job's own sampling
    decode_prefill: float  # the engine against itself: sampled token by token, or scored in one pass
    packing: float  # the trainer against itself: a row of many sequences, or one sequence a row
    relative: float  # Σ|δ| / Σ|logprob of the trainer|
    explained: float  # a hypothesis is confirmed when it takes away this fraction of the difference


LIMITS: dict[str, Limits] = {
    "float32": Limits(residue=1e-4, decode_prefill=1e-4, packing=1e-5, relative=0.01, explained=0.99),
    # Every kernel rounds each activation to 8 bits: two right implementations, or two shapes of one, differ by this.
    "bfloat16": Limits(residue=0.1, decode_prefill=0.1, packing=0.1, relative=0.2, explained=0.8),
}


def limits_of(config: Config) -> Limits:
    """The table's row for model.dtype; consistency.limit, where set, is the limit of the residue."""
    row = LIMITS[config.model.dtype]
    if config.consistency.limit is None:
        return row
    return replace(row, residue=config.consistency.limit)
