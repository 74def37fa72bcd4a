"""The ladder: each rung explains those after it, so the first that fails is the cause."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from pipeline.doctor.bench import Bench
from pipeline.doctor.rungs import (
    after_update,
    decode_prefill,
    head_dtype,
    in_flight,
    logits_processing,
    microbatch_invariance,
    packing,
    prefix_cache,
    residue,
    shift_and_mask,
    token_ids,
    weights,
)
from pipeline.doctor.sampler import SamplerFailed
from pipeline.doctor.verdict import Verdict, not_applicable

Rung = Callable[[Bench], Awaitable[Verdict]]

LADDER: tuple[tuple[str, Rung], ...] = (
    (token_ids.RUNG, token_ids.token_ids),
    (shift_and_mask.RUNG, shift_and_mask.shift_and_mask),
    (logits_processing.RUNG, logits_processing.logits_processing),
    (packing.RUNG, packing.packing),
    (weights.RUNG, weights.weights),
    (decode_prefill.RUNG, decode_prefill.decode_prefill),
    (prefix_cache.RUNG, prefix_cache.prefix_cache),
    (head_dtype.RUNG, head_dtype.head_dtype),
    (microbatch_invariance.RUNG, microbatch_invariance.microbatch_invariance),
    (residue.RUNG, residue.residue),
    (after_update.RUNG, after_update.after_update),
    (in_flight.RUNG, in_flight.in_flight),
)


async def climb(
    bench: Bench, on_verdict: Callable[[Verdict], None] = lambda verdict: None, *, stop_at_failure: bool = False
) -> list[Verdict]:
    """Verdicts of all rungs in order, each told as soon as it is known.

    A rung that needs an engine which has failed does not apply; the rung that saw it fail says why.
    """
    await bench.begin()
    verdicts: list[Verdict] = []
    for name, rung in LADDER:
        started = time.monotonic()
        try:
            verdict = await rung(bench)
        except SamplerFailed as failure:
            verdict = not_applicable(name, f"the engine cannot be asked: {failure}")
        verdict = replace(verdict, seconds=time.monotonic() - started)
        on_verdict(verdict)
        verdicts.append(verdict)
        if stop_at_failure and verdict.state == "failed":
            break
    return verdicts


def first_cause(verdicts: Sequence[Verdict]) -> Verdict | None:
    """The first rung that failed, or None."""
    return next((v for v in verdicts if v.state == "failed"), None)
