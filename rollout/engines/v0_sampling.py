"""Our sampling words as vLLM 0.8.5's request parameters."""

from collections.abc import Sequence
from typing import Any

from rollout.types import Sampling


def v0_sampling_params(sampling: Sampling, end_token_ids: Sequence[int], num_logprobs: int) -> Any:
    """Request parameters; each step returns the tokens it sampled."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k or -1,
        max_tokens=sampling.max_new_tokens,
        seed=sampling.seed,
        stop_token_ids=sorted({*end_token_ids, *sampling.stop_token_ids}),
        ignore_eos=True,
        logprobs=num_logprobs,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )


def v0_score_params() -> Any:
    """Parameters that return the prompt's own logprobs, at temperature 1 whatever training samples at."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=1.0,
        max_tokens=1,
        ignore_eos=True,
        prompt_logprobs=0,
        detokenize=False,
        output_kind=RequestOutputKind.DELTA,
    )
