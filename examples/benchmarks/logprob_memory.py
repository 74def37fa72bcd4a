"""Chunked logprobs against a full-vocabulary log-softmax: peak extra memory and time, forward and backward.

    python -m examples.benchmarks.logprob_memory [--json OUT] [--tokens N] [--timed-tokens N] [--clock cpu]

Peak extra memory is all that rises above hidden states and lm_head, their gradients included, which both ways need.
Hidden sizes are those of the quickstart's model, of SmolLM2-135M and of Qwen2.5-0.5B.
"""

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import torch

from actor.logprobs import token_logprobs
from configs.actor_schema import ActorConfig
from examples.benchmarks.measurement import median_ratio, seconds_by_case
from examples.benchmarks.outcome import Outcome, Target, arguments, compute_options, show
from examples.benchmarks.peak_memory import in_own_process, measured

HIDDEN_SIZES = {1_000: 128, 49_152: 576, 151_936: 896}  # by vocabulary
WAYS = ("full", "chunked")
TEMPERATURE = 0.9
_WARMUP_TOKENS = 2
_MIB = 1 << 20


def work(way: str, vocabulary: int, num_tokens: int, chunk: int) -> Callable[[], object]:
    """One forward and backward of `num_tokens` response tokens; gradients are left in the inputs' `grad`."""
    torch.manual_seed(0)
    hidden = torch.randn(num_tokens, HIDDEN_SIZES[vocabulary], requires_grad=True)
    weight = (torch.randn(vocabulary, HIDDEN_SIZES[vocabulary]) * 0.02).requires_grad_()
    targets = torch.randint(vocabulary, (num_tokens,))

    def run() -> object:
        hidden.grad = weight.grad = None
        if way == "chunked":
            logprobs = token_logprobs(
                hidden, weight, None, targets, temperature=TEMPERATURE, chunk_tokens=chunk, want_entropy=False
            )[0]
        else:
            logprobs = (hidden @ weight.t() / TEMPERATURE).log_softmax(-1).gather(1, targets[:, None]).squeeze(1)
        logprobs.sum().backward()
        return hidden.grad, weight.grad

    return run


def peak_extra(way: str, vocabulary: int, num_tokens: int, chunk: int) -> int:
    """Bytes beyond the inputs, measured in this process."""
    work(way, vocabulary, _WARMUP_TOKENS, chunk)()  # thread pools and the libraries' own buffers come into being
    return measured(work(way, vocabulary, num_tokens, chunk))


def measure(vocabulary: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row for each way."""
    shape = [str(vocabulary), str(options.tokens), str(options.chunk_tokens), str(options.threads)]
    peaks = {way: in_own_process(__spec__.name, ["--case", way, *shape]) for way in WAYS}
    cases = {way: work(way, vocabulary, options.timed_tokens, options.chunk_tokens) for way in WAYS}
    seconds = seconds_by_case(cases, options.repeats, options.clock)
    return [
        {
            "vocabulary": vocabulary,
            "hidden size": HIDDEN_SIZES[vocabulary],
            "logprobs": way,
            "peak extra MiB": peaks[way] / _MIB,
            "memory of full": peaks[way] / peaks["full"],
            "seconds": statistics.median(seconds[way]),
            "time of full": median_ratio(seconds[way], seconds["full"]),
        }
        for way in WAYS
    ]


def main() -> None:
    parser = arguments(__doc__, repeats=3)
    compute_options(parser)
    budget = ActorConfig().max_tokens_per_microbatch
    parser.add_argument("--tokens", type=int, default=budget, help=f"response tokens, for memory (default {budget})")
    parser.add_argument("--timed-tokens", type=int, default=1024, help="response tokens, for time (default 1024)")
    chunk = ActorConfig().logprob_chunk_tokens
    parser.add_argument("--chunk-tokens", type=int, default=chunk, help=f"rows of a chunk (default {chunk})")
    parser.add_argument("--case", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is not None:
        way, (vocabulary, tokens, chunk, threads) = options.case[0], map(int, options.case[1:])
        torch.set_num_threads(threads)
        print(peak_extra(way, vocabulary, tokens, chunk))
        return
    torch.set_num_threads(options.threads)
    rows = [row for vocabulary in HIDDEN_SIZES for row in measure(vocabulary, options)]
    largest = rows[-1]
    targets = [
        Target("peak extra memory, of the full path's, largest vocabulary", largest["memory of full"], 1 / 8, False),
        Target("time, of the full path's, largest vocabulary", largest["time of full"], 1.15, False),
    ]
    title = f"Logprobs, forward and backward: memory of {options.tokens} tokens, time of {options.timed_tokens}"
    show(Outcome(title, rows, targets), options.json)


if __name__ == "__main__":
    main()
