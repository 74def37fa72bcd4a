"""The words the sampler shares with the pipeline. P prompt tokens, R response tokens, G group."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

FinishReason = Literal["stop", "length"]

UNVERIFIED = -1
"""Version of weights from disk: they are version 0 only once the trainer has published it and the probe agreed."""


@dataclass(frozen=True)
class Prompt:
    """One row of the data set, tokenized once; token ids travel from here on, never text."""

    prompt_id: str  # unique within the data set
    token_ids: tuple[int, ...]  # [P]
    answer: str
    row: Mapping[str, Any] = field(default_factory=dict)  # the data set's own columns
    text: str = ""  # the question, without chat template; for reward functions and reports


@dataclass(frozen=True)
class Sampling:
    """What the engine needs to sample one completion."""

    temperature: float
    max_new_tokens: int
    top_p: float = 1.0
    top_k: int = 0  # 0 keeps all
    stop_token_ids: tuple[int, ...] = ()
    seed: int | None = None


@dataclass(frozen=True)
class Completion:
    """What an engine returns for one request; the sampled end token is part of it and is scored."""

    token_ids: tuple[int, ...]  # [R]
    logprobs: tuple[float, ...]  # [R] of the distribution that was sampled from
    versions: tuple[int, ...]  # [R] label of the weights that sampled each token
    finish_reason: FinishReason
    kept_token_ids: tuple[tuple[int, ...], ...] | None = None  # [R][kept] when top-p/top-k truncate

    def __post_init__(self) -> None:
        assert len(self.token_ids) == len(self.logprobs) == len(self.versions)


@dataclass(frozen=True)
class RewardResult:
    """What became of scoring one completion. A failure is no wrong answer: it has reward 0 and says what failed."""

    reward: float
    failed: bool = False
    error: str | None = None


@dataclass(frozen=True)
class Trajectory:
    """One scored completion of a prompt."""

    prompt_token_ids: tuple[int, ...]  # [P]
    response_token_ids: tuple[int, ...]  # [R]
    behavior_logprobs: tuple[float, ...]  # [R]
    versions: tuple[int, ...]  # [R]
    loss_mask: tuple[int, ...]  # [R] 1 where the policy sampled the token, 0 for environment tokens
    reward: float
    finish_reason: FinishReason
    reward_failed: bool = False
    kept_token_ids: tuple[tuple[int, ...], ...] | None = None  # [R][kept]
    reward_error: str | None = None  # what failed

    def __post_init__(self) -> None:
        n = len(self.response_token_ids)
        assert n == len(self.behavior_logprobs) == len(self.versions) == len(self.loss_mask)


@dataclass(frozen=True)
class Group:
    """The completions of one prompt in one epoch. `group_id` is unique within the run."""

    group_id: str
    prompt_id: str
    epoch: int
    worker: int
    trajectories: tuple[Trajectory, ...]  # [G], fewer when samples were lost

    @property
    def oldest_version(self) -> int:
        """Least version over all response tokens of the group; 0 if it has none."""
        return min((v for t in self.trajectories for v in t.versions), default=0)

    @property
    def newest_version(self) -> int:
        """Greatest version over all response tokens of the group; 0 if it has none."""
        return max((v for t in self.trajectories for v in t.versions), default=0)


@dataclass(frozen=True)
class TensorMeta:
    """One published tensor: where it is in its bucket file and the sha256 of its bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str


@dataclass(frozen=True)
class TransferPlace:
    """One worker's place in the NCCL group that carries the weights. Trainer rank 0 is the group's rank 0."""

    group: int  # counts the groups of a run: a port may come back
    address: str  # where the group meets
    port: int
    rank_offset: int  # group rank of the worker's first GPU
    world_size: int
    buffer_bytes: int  # sender and receivers must cut the stream alike


@dataclass(frozen=True)
class WeightUpdate:
    """Published weights of one version: bucket files, written whole before this exists, or a place in a broadcast."""

    version: int
    buckets: tuple[str, ...]  # paths of the bucket files; empty under nccl
    tensors: tuple[TensorMeta, ...]
    probe_token_ids: tuple[int, ...]  # [N] fixed sequence
    probe_logprobs: tuple[float, ...]  # [N-1] of tokens 1..N-1 by the trainer at temperature 1
    transfer: TransferPlace | None = None  # under nccl, this worker's place


@dataclass(frozen=True)
class UpdateReport:
    """What one worker's update did. `probe_mean_abs_diff` is against `WeightUpdate.probe_logprobs`."""

    worker: int
    version: int
    pause_s: float
    load_s: float
    verify_s: float
    resume_s: float
    num_tensors_checked: int
    probe_mean_abs_diff: float
    probe_max_abs_diff: float
