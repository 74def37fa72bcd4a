"""Shift and mask: token j is scored by what stands before it, the prompt is context, the end token counts."""

from dataclasses import replace

from pipeline.doctor.bench import Bench
from pipeline.doctor.sample import Sample, behavior, explained, masked, mean_abs
from pipeline.doctor.verdict import Verdict, failed, passed

RUNG = "shift and mask"
KEY = "rollout.episode"


async def shift_and_mask(bench: Bench) -> Verdict:
    """Masks against the engine's record, then δ against δ with one side moved by one, then another prompt."""
    sample, limit = bench.sample, bench.limits.residue
    if cause := mask_fault(sample):
        return failed(RUNG, "loss mask against what the engine sampled", cause, KEY)
    trajectories = sample.trajectories
    difference = mean_abs(masked(trajectories, sample.scores), behavior(trajectories))
    share = max(shifted(sample, step, difference) for step in (-1, 1)) if difference > limit else 0.0
    note = "fraction of δ that a shift by one takes away"
    if share >= bench.limits.explained:
        cause = "response tokens are compared with their neighbours: logits at a position predict the next token"
        return failed(RUNG, note, cause, KEY, share, bench.limits.explained)
    change = await prompt_effect(bench, sample)
    if difference > limit >= change:
        cause = (
            "the trainer's logprobs do not depend on the prompt: it is masked out of attention, not just of the loss"
        )
        return failed(RUNG, "change of the logprobs under another prompt", cause, "actor.attn_implementation",
                      change, limit)  # fmt: skip
    return passed(RUNG, f"{note}; end tokens are scored; another prompt changes logprobs by {change:.1g}", share,
                  bench.limits.explained)  # fmt: skip


def mask_fault(sample: Sample) -> str | None:
    """What is wrong with the loss masks, or None."""
    for trajectory, turns in zip(sample.trajectories, sample.turns, strict=True):
        num_sampled = sum(len(turn.completion.token_ids) for turn in turns)
        num_scored = sum(trajectory.loss_mask)
        if num_scored == num_sampled:
            continue
        if num_scored < num_sampled and turns[-1].completion.finish_reason == "stop":
            return "the end token that the engine sampled is not scored, so the policy never learns to end"
        return f"the loss mask holds {num_scored} tokens where the engine sampled {num_sampled}"
    return None


def shifted(sample: Sample, step: int, difference: float) -> float:
    """Fraction of the difference that disappears when token t is compared with the trainer's token t + step."""
    ours: list[float] = []
    theirs: list[float] = []
    for t, row in zip(sample.trajectories, sample.scores, strict=True):
        n = len(row) - 1
        first = 1 if step < 0 else 0
        ours += t.behavior_logprobs[first : first + n]
        theirs += row[first + step : first + step + n]
    return explained(mean_abs(ours, theirs), difference)


async def prompt_effect(bench: Bench, sample: Sample) -> float:
    """Mean change of the trainer's logprobs when all of the prompt but its last token is turned around."""
    sequences = sample.sequences
    other = [
        replace(s, prompt_token_ids=(*reversed(s.prompt_token_ids[:-1]), s.prompt_token_ids[-1])) for s in sequences
    ]
    scores = await bench.score(other)
    trajectories = sample.trajectories
    return mean_abs(masked(trajectories, scores), masked(trajectories, sample.scores))
