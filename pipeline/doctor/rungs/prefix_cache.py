"""Prefix cache: a prompt seen before is computed with the weights of now, not read from a cache of older ones."""

from dataclasses import replace

from exchange.types import Prompt, Sampling
from pipeline.doctor.bench import NUM_SAMPLES, Bench
from pipeline.doctor.rungs.decode_prefill import decode_difference
from pipeline.doctor.sample import mean_abs
from pipeline.doctor.verdict import Verdict, failed, passed

RUNG = "prefix cache"
KEY = "rollout.vllm_config.vllm_kwargs.enable_prefix_caching"
NUM_NEW = 8


async def prefix_cache(bench: Bench) -> Verdict:
    """Off: a repeated request repeats its logprobs. On: the same after an update, where old entries would show."""
    if not bench.engine_args.get("enable_prefix_caching"):
        return await _off(bench)
    prompt, block = _long_prompt(bench), int(bench.engine_args.get("block_size") or 16)
    if len(prompt.token_ids) <= block:
        return passed(RUNG, f"on, but no prompt of this job fills one of its blocks of {block} tokens")
    sampling = Sampling(1.0, NUM_NEW, stop_token_ids=bench.sampling.stop_token_ids)
    await bench.draw([prompt], sampling, NUM_SAMPLES)
    await bench.train()
    await bench.synchronize()
    await bench.note_lag()
    # A score never reads the cache, a sampled completion does.
    figure = await decode_difference(bench, await bench.draw([prompt], sampling, NUM_SAMPLES))
    await bench.redraw()
    limit = bench.decode_limit
    note = f"on; a prompt of {len(prompt.token_ids)} tokens sampled before and after an update"
    if figure > limit:
        cause = "the prefix cache is kept over an update: prompts are read through keys and values of older weights"
        return failed(RUNG, note, cause, KEY, figure, limit)
    return passed(RUNG, note, figure, limit)


async def _off(bench: Bench) -> Verdict:
    limit = bench.decode_limit
    # Equal names draw equal completions.
    first, second = [await bench.draw(bench.prompts[:1], bench.sampling, NUM_SAMPLES, "doctor-twice") for _ in "ab"]
    figure = max(
        mean_abs(a.behavior_logprobs, b.behavior_logprobs)
        for a, b in zip(first.trajectories, second.trajectories, strict=True)
        if a.response_token_ids == b.response_token_ids
    )
    note = "off; the same requests asked twice"
    if figure > limit:
        return failed(RUNG, note, "a repeated request gets other logprobs for the same tokens", KEY, figure, limit)
    return passed(RUNG, note, figure, limit)


def _long_prompt(bench: Bench) -> Prompt:
    """The data set's prompts one after another, as long as the engine's context allows."""
    room = int(bench.engine_args.get("max_model_len") or 0) - NUM_NEW - 1
    ids = [t for p in bench.prompts[:64] for t in p.token_ids][: max(1, room)]
    return replace(bench.prompts[0], prompt_id="doctor-long", token_ids=tuple(ids))
