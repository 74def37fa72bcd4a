"""From the engine's weight-version spans to one version per token.

Between our sampling words and vLLM's: request parameters out, completions and scores back.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from vllm import SamplingParams
from vllm.sampling_params import RequestOutputKind

from exchange.types import Completion, FinishReason, Sampling

# top-k keeps every token that ties with the k-th, so a few more than k are requested.
TIES = 8
# The kept set travels with every token; a whole large vocabulary would be megabytes a token.
MAX_KEPT = 4096


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
        flat_logprobs=True,
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


def check_kept_set(sampling: Sampling, vocab_size: int) -> None:
    """Refuse truncated sampling whose kept set could be a whole large vocabulary.

    Raises:
        ValueError: top-p without top-k over more than MAX_KEPT tokens.
    """
    if truncates(sampling) and num_logprobs(sampling, vocab_size) > MAX_KEPT:
        raise ValueError(
            f"rollout.sampling.top_p={sampling.top_p:g} with top_k={sampling.top_k} may keep {vocab_size} tokens at "
            f"every position, and the trainer needs them all; set rollout.sampling.top_k to at most {MAX_KEPT - TIES}"
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
    rows = logprob_rows(output.logprobs)
    return Completion(
        token_ids=token_ids,
        logprobs=tuple(row[token] for token, row in zip(token_ids, rows, strict=True)),
        versions=token_versions(output.weight_versions, len(token_ids)),
        finish_reason=finish_reason,
        kept_token_ids=_kept(rows, sampling, vocab_size) if truncates(sampling) else None,
    )


def logprob_rows(flat: Any) -> list[dict[int, float]]:
    """Token → logprob at each position [R], from vLLM's flat lists, or from its list of dicts (older engines)."""
    if isinstance(flat, list):
        return [{token: float(at.logprob) for token, at in row.items()} for row in flat]
    spans = zip(flat.start_indices, flat.end_indices, strict=True)
    return [dict(zip(flat.token_ids[start:end], flat.logprobs[start:end], strict=True)) for start, end in spans]


def _kept(rows: Sequence[Mapping[int, float]], sampling: Sampling, vocab_size: int) -> tuple[tuple[int, ...], ...]:
    asked = num_logprobs(sampling, vocab_size)
    kept = tuple(kept_token_ids(row) for row in rows)
    if asked < vocab_size and any(len(tokens) >= asked for tokens in kept):
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


class VersionSpan(Protocol):
    """Output tokens [start, end) were sampled by the weights labelled `version`."""

    version: str
    start: int
    end: int


def token_versions(spans: Sequence[VersionSpan] | None, num_tokens: int) -> tuple[int, ...]:
    """One version per output token → [R].

    Args:
        spans: contiguous spans over the output tokens, oldest first; None when the engine reported none.
        num_tokens: R, the number of output tokens.

    Raises:
        ValueError: a token has no version or two, a label is not a number, or labels run backwards. A version is
            stamped where the token is sampled and must never be guessed later.
    """
    versions: list[int] = []
    for span in spans or ():
        if span.start != len(versions) or span.end < span.start:
            raise ValueError(f"weight-version span [{span.start}, {span.end}) does not follow token {len(versions)}")
        if not span.version.isdecimal():
            raise ValueError(f"weights labelled {span.version!r} sampled tokens {span.start}..{span.end - 1}")
        version = int(span.version)
        if versions and version < versions[-1]:
            raise ValueError(f"weight version runs backwards from {versions[-1]} to {version} at token {span.start}")
        versions.extend([version] * (span.end - span.start))
    if len(versions) != num_tokens:
        raise ValueError(f"weight-version spans cover {len(versions)} of {num_tokens} tokens")
    return tuple(versions)
