"""What the trainer consumes. Everything of response token t sits at index t.

S sequences, R response tokens of one sequence, T response tokens of a micro-batch.
"""

from dataclasses import dataclass, replace

import torch

from actor.packed_rows import PackedRow


@dataclass(frozen=True)
class TrainSequence:
    """One completion with its per-token data, ready to be trained on."""

    prompt_token_ids: tuple[int, ...]  # [P]
    response_token_ids: tuple[int, ...]  # [R]
    mask: tuple[int, ...]  # [R] 1 where the token enters the loss
    behavior_logprobs: tuple[float, ...]  # [R]
    versions: tuple[int, ...]  # [R]
    advantages: tuple[float, ...]  # [R]
    group: int  # index of the group within the batch
    sample: int = 0  # index of the completion within its group
    kept_token_ids: tuple[tuple[int, ...], ...] | None = None  # [R][kept] when the sampler truncated

    def __post_init__(self) -> None:
        n = len(self.response_token_ids)
        for name in ("mask", "behavior_logprobs", "versions", "advantages"):
            assert len(getattr(self, name)) == n, f"{name} has {len(getattr(self, name))} entries for {n} tokens"

    @property
    def num_tokens(self) -> int:
        """P + R."""
        return len(self.prompt_token_ids) + len(self.response_token_ids)


@dataclass(frozen=True)
class Denominators:
    """Counts over the *global* minibatch (all ranks), taken before any correction filters tokens."""

    num_tokens: float
    num_sequences: float


@dataclass(frozen=True)
class TokenBatch:
    """The response tokens of a micro-batch, flat; what ratios, proximal and losses work on."""

    mask: torch.Tensor  # [T] bool
    sequence: torch.Tensor  # [T] int64, index 0..S-1 of the token's sequence
    num_sequences: int  # S
    behavior_logprobs: torch.Tensor  # [T] float32
    versions: torch.Tensor  # [T] int64
    advantages: torch.Tensor  # [T] float32


@dataclass(frozen=True)
class MicroBatch:
    """Sequences packed into one row without padding; positions continue from the prompt in every completion."""

    input_ids: torch.Tensor  # [N] int64
    position_ids: torch.Tensor  # [N] int64
    response_index: torch.Tensor  # [T] int64, where in the row each response token stands
    predictor_index: torch.Tensor  # [T] int64, where the token before it in its sequence stands
    row: PackedRow  # what attends to what; N tokens
    tokens: TokenBatch
    kept_token_ids: tuple[tuple[int, ...], ...] | None = None  # [T][kept]

    def to(self, device: torch.device) -> "MicroBatch":
        """The same micro-batch with its tensors on `device`."""
        tokens = self.tokens
        moved = {
            name: getattr(tokens, name).to(device)
            for name in ("mask", "sequence", "behavior_logprobs", "versions", "advantages")
        }
        return replace(
            self,
            input_ids=self.input_ids.to(device),
            position_ids=self.position_ids.to(device),
            response_index=self.response_index.to(device),
            predictor_index=self.predictor_index.to(device),
            tokens=replace(tokens, **moved),
        )
