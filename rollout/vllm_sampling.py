"""Between our sampling words and vLLM's: request parameters out, completions and scores back."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from vllm import SamplingParams
from vllm.sampling_params import RequestOutputKind

from rollout.token_versions import token_versions
from rollout.types import Completion, FinishReason, Sampling

# top-k keeps every token that ties with the k-th, so a few more than k are asked for.
TIES = 8


def sampling_params(sampling: Sampling, end_token_ids: Sequence[int], vocab_size: int) -> SamplingParams:
    """Request parameters: the sampled token's logprob, and the whole kept set where top-p or top-k truncate."""
    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        max_tokens=sampling.max_new_tokens,
        seed=sampling.seed,
        # The engine has no tokenizer and hence no end token of its own; stop tokens stay part of the output.
        stop_token_ids=sorted({*end_token_ids, *sampling.stop_token_ids}),
        ignore_eos=True,
        logprobs=num_logprobs(sampling, vocab_size),
        detokenize=False,
        skip_clone=True,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def truncates(sampling: Sampling) -> bool:
    """Whether the sampled distribution leaves tokens out. Greedy sampling is scored over the whole vocabulary."""
    return sampling.temperature > 0 and (sampling.top_p < 1 or sampling.top_k > 0)


def num_logprobs(sampling: Sampling, vocab_size: int) -> int:
    """How many of the likeliest tokens' logprobs to ask for besides the sampled one's."""
    if not truncates(sampling):
        return 0
    return min(sampling.top_k + TIES, vocab_size) if sampling.top_k > 0 else vocab_size


def score_params() -> SamplingParams:
    """Parameters that return the prompt's own logprobs, at temperature 1 whatever training samples at."""
    return SamplingParams(
        temperature=1.0,
        max_tokens=1,
        ignore_eos=True,
        prompt_logprobs=0,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def to_completion(output: Any, sampling: Sampling, vocab_size: int) -> Completion:
    """Our completion from vLLM's `CompletionOutput`.

    Raises:
        ValueError: a token without logprob or version, or an end that is neither a stop token nor the length.
    """
    token_ids = tuple(output.token_ids)
    if output.finish_reason not in ("stop", "length"):
        raise ValueError(f"the engine ended a completion with {output.finish_reason!r}")
    if output.logprobs is None or len(output.logprobs) != len(token_ids):
        raise ValueError(f"the engine returned logprobs for {len(output.logprobs or ())} of {len(token_ids)} tokens")
    finish_reason: FinishReason = output.finish_reason
    return Completion(
        token_ids=token_ids,
        logprobs=tuple(float(at[t].logprob) for t, at in zip(token_ids, output.logprobs, strict=True)),
        versions=token_versions(output.weight_versions, len(token_ids)),
        finish_reason=finish_reason,
        kept_token_ids=_kept(output.logprobs, sampling, vocab_size) if truncates(sampling) else None,
    )


def _kept(
    logprobs: Sequence[Mapping[int, Any]], sampling: Sampling, vocab_size: int
) -> tuple[tuple[int, ...], ...]:
    asked = num_logprobs(sampling, vocab_size)
    kept = tuple(kept_token_ids({t: p.logprob for t, p in at.items()}) for at in logprobs)
    if asked < vocab_size and any(len(at) >= asked for at in kept):
        raise ValueError(f"more than {TIES - 1} tokens tie with the last one that top_k={sampling.top_k} keeps")
    return kept


def kept_token_ids(logprobs: Mapping[int, float]) -> tuple[int, ...]:
    """Tokens that could have been sampled, ascending: truncation sets the others' processed logprob to −∞."""
    return tuple(sorted(t for t, p in logprobs.items() if not math.isinf(p)))


def to_scores(prompt_logprobs: Sequence[Mapping[int, Any] | None], token_ids: Sequence[int]) -> tuple[float, ...]:
    """Logprobs of tokens 1..N-1 from vLLM's prompt logprobs [N], whose first entry is None."""
    assert len(prompt_logprobs) == len(token_ids)
    rows = zip(token_ids[1:], prompt_logprobs[1:], strict=True)
    return tuple(float(at[t].logprob) for t, at in rows if at is not None)
