"""A trajectory of several turns, built so that tokens, logprobs, versions and loss mask stay aligned."""

from collections.abc import Sequence

from exchange.types import Completion, FinishReason, RewardResult, Trajectory


class Transcript:
    """What the policy and its environment have written after a prompt.

    Invariant: a token of the environment is masked out of the loss, its logprob is 0 (it was certain), and its version
    is that of the sampled token before it, so that it never makes a trajectory look older or newer than it is.
    """

    def __init__(self, prompt_token_ids: Sequence[int]) -> None:
        self._prompt = tuple(prompt_token_ids)
        self._tokens: list[int] = []
        self._logprobs: list[float] = []
        self._versions: list[int] = []
        self._mask: list[int] = []
        self._kept: list[tuple[int, ...]] = []
        self._truncated: bool | None = None  # whether completions come with kept token ids
        self._finish_reason: FinishReason = "stop"

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Prompt and all that followed: what the next `generate` is given."""
        return (*self._prompt, *self._tokens)

    @property
    def response_token_ids(self) -> tuple[int, ...]:
        """All that followed the prompt."""
        return tuple(self._tokens)

    def add_completion(self, completion: Completion) -> None:
        """Append what the policy sampled, its end token included."""
        kept = completion.kept_token_ids
        assert self._truncated in (None, kept is not None), "all completions of a trajectory are sampled alike"
        self._truncated = kept is not None
        self._tokens += completion.token_ids
        self._logprobs += completion.logprobs
        self._versions += completion.versions
        self._mask += [1] * len(completion.token_ids)
        self._kept += kept or ()
        self._finish_reason = completion.finish_reason

    def add_environment(self, token_ids: Sequence[int]) -> None:
        """Append tokens that the policy did not sample: a tool's answer, the next turn's opening.

        Raises:
            ValueError: when nothing was sampled yet; such tokens belong to the prompt.
        """
        if not self._versions:
            raise ValueError("tokens before the first completion belong to the prompt; pass them to Transcript(...)")
        n = len(token_ids)
        self._tokens += token_ids
        self._logprobs += [0.0] * n
        self._versions += [self._versions[-1]] * n
        self._mask += [0] * n
        if self._truncated:
            self._kept += [(token,) for token in token_ids]

    def trajectory(self, result: RewardResult) -> Trajectory:
        """The whole as one trajectory with its reward; its finish reason is the last completion's."""
        return Trajectory(
            prompt_token_ids=self._prompt,
            response_token_ids=tuple(self._tokens),
            behavior_logprobs=tuple(self._logprobs),
            versions=tuple(self._versions),
            loss_mask=tuple(self._mask),
            reward=result.reward,
            finish_reason=self._finish_reason,
            reward_failed=result.failed,
            kept_token_ids=tuple(self._kept) if self._truncated else None,
            reward_error=result.error,
        )
