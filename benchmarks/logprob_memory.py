"""Chunked logprobs against a full-vocabulary log-softmax: peak extra memory and time, forward and backward.

    python -m benchmarks.logprob_memory [--json OUT] [--tokens N ...] [--timed-tokens N] [--clock cpu]

Peak extra memory is all that rises above hidden states and lm_head. It is reported twice: with the gradients of both,
which any way leaves behind, and without what is left behind. Hidden sizes are those of the quickstart's model, of
SmolLM2-135M and of Qwen2.5-0.5B.
"""

import argparse
import json
import os
import statistics
from collections.abc import Callable
from typing import Any

import torch

from actor.logprobs import token_logprobs
from benchmarks.measurement import median_ratio, say, seconds_by_case
from benchmarks.outcome import Outcome, Target, arguments, compute_options, show
from benchmarks.peak_memory import Rise, in_own_process, measured
from benchmarks.quiet import own_stdout, run_quietly
from configs.actor_schema import ActorConfig

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


def peak_extra(way: str, vocabulary: int, num_tokens: int, chunk: int) -> Rise:
    """Bytes beyond the inputs, measured in this process."""
    work(way, vocabulary, _WARMUP_TOKENS, chunk)()  # thread pools and the libraries' own buffers come into being
    return measured(work(way, vocabulary, num_tokens, chunk))


def memory(vocabulary: int, num_tokens: int, options: argparse.Namespace) -> dict[str, Any] | None:
    """Columns of one size; None when a way did not end within the limit."""
    rises: dict[str, Rise] = {}
    for way in WAYS:
        # Memory does not depend on the threads, so that every core may help.
        shape = map(str, (vocabulary, num_tokens, options.chunk_tokens, len(os.sched_getaffinity(0))))
        rise = in_own_process(__spec__.name, ["--case", way, *shape], options.limit_s)
        what = f"memory, vocabulary {vocabulary:,}, {num_tokens:,} tokens, {way}"
        say(f"{what}: {f'not within {options.limit_s:g} s' if rise is None else f'{rise.peak / _MIB:,.0f} MiB'}")
        if rise is None:
            return None
        rises[way] = rise
    full, chunked = (rises[way] for way in WAYS)
    return {
        "vocabulary": vocabulary,
        "hidden size": HIDDEN_SIZES[vocabulary],
        "tokens": num_tokens,
        "full MiB": full.peak / _MIB,
        "chunked MiB": chunked.peak / _MIB,
        "of full": chunked.peak / full.peak,
        "full, gradients aside": full.passing / _MIB,
        "chunked, gradients aside": chunked.passing / _MIB,
        "of full, gradients aside": chunked.passing / full.passing,
    }


def times(vocabulary: int, options: argparse.Namespace) -> dict[str, Any]:
    """Columns of the time at one vocabulary."""
    cases = {way: work(way, vocabulary, options.timed_tokens, options.chunk_tokens) for way in WAYS}
    seconds = seconds_by_case(cases, options.repeats, options.clock)
    full, chunked = (seconds[way] for way in WAYS)
    medians = {"full s": statistics.median(full), "chunked s": statistics.median(chunked)}
    say(f"time, vocabulary {vocabulary:,}: " + ", ".join(f"{name} {value:.3g}" for name, value in medians.items()))
    return medians | {"time of full": median_ratio(chunked, full)}


def main() -> None:
    parser = arguments(__doc__, repeats=3)
    compute_options(parser)
    budget = ActorConfig().max_tokens_per_microbatch
    sizes = [budget // 2, budget]
    help_ = f"response tokens, for memory (default {sizes[0]} and {sizes[1]})"
    parser.add_argument("--tokens", type=int, nargs="+", default=sizes, help=help_)
    parser.add_argument("--timed-tokens", type=int, default=1024, help="response tokens, for time (default 1024)")
    chunk = ActorConfig().logprob_chunk_tokens
    parser.add_argument("--chunk-tokens", type=int, default=chunk, help=f"rows of a chunk (default {chunk})")
    parser.add_argument("--limit-s", type=float, default=240.0, help="seconds for one case of memory (default 240)")
    parser.add_argument("--case", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is not None:
        way, (vocabulary, tokens, chunk, threads) = options.case[0], map(int, options.case[1:])
        torch.set_num_threads(threads)
        print(json.dumps(peak_extra(way, vocabulary, tokens, chunk)), file=own_stdout())
        return
    torch.set_num_threads(options.threads)
    rows: list[dict[str, Any]] = []
    for vocabulary in HIDDEN_SIZES:
        sizes_here = [row for n in options.tokens if (row := memory(vocabulary, n, options)) is not None]
        taken = times(vocabulary, options) if sizes_here else {}
        rows += [row | taken for row in sizes_here]
    show(outcome(rows, options), options.json)


def outcome(rows: list[dict[str, Any]], options: argparse.Namespace) -> Outcome:
    """The figures, and the targets at the largest size that was measured.

    Raises ValueError when none was.
    """
    if not rows:
        raise ValueError(f"no case ended within --limit-s={options.limit_s:g}; raise it")
    last = rows[-1]
    where = f"{last['tokens']:,} tokens, vocabulary {last['vocabulary']:,}"
    targets = [
        Target(f"peak extra memory, of the full path's, {where}", last["of full"], 1 / 8, False),
        Target(f"the same without the gradients left behind, {where}", last["of full, gradients aside"], 1 / 8, False),
        Target(f"time, of the full path's, vocabulary {last['vocabulary']:,}", last["time of full"], 1.15, False),
    ]
    gradients = "Gradients aside: peak less what is held at the end, on both ways alike."
    title = f"Logprobs, forward and backward, chunks of {options.chunk_tokens}: time of {options.timed_tokens} tokens"
    return Outcome(title, rows, targets, [gradients])


if __name__ == "__main__":
    run_quietly(main)
