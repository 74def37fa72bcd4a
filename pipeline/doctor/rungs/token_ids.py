"""Token ids: the data set's prompts as the model's own template writes them, and ids that nobody tokenized again."""

from typing import Any

from configs.schema import DatasetConfig
from exchange.types import Prompt
from pipeline.doctor.bench import Bench
from pipeline.doctor.sample import Sample
from pipeline.doctor.verdict import Verdict, failed, passed
from rollout.data.prompts import uses_chat_template

RUNG = "token ids"


async def token_ids(bench: Bench) -> Verdict:
    """Prompts against an independent rendering; sampler's and trainer's ids against the engine's record."""
    if wrong := prompt_fault(bench.prompts[:64], bench.config.dataset, bench.tokenizer):
        return wrong
    sample = bench.sample
    for trajectory, turns in zip(sample.trajectories, sample.turns, strict=True):
        whole = trajectory.prompt_token_ids + trajectory.response_token_ids
        sampled = [token for turn in turns for token in turn.completion.token_ids]
        kept = [t for t, m in zip(trajectory.response_token_ids, trajectory.loss_mask, strict=True) if m]
        if turns[0].prompt_token_ids != trajectory.prompt_token_ids:
            return _wrong("the sampler's prompt ids differ from the trainer's", "dataset.path")
        if any(whole[: len(turn.prompt_token_ids)] != turn.prompt_token_ids for turn in turns) or not _same(
            kept, sampled
        ):
            return _wrong(
                "the trainer is given other response ids than the engine sampled: the text was decoded and tokenized "
                "again; pass token ids on",
                "rollout.episode",
            )
    return passed(RUNG, f"{len(sample.trajectories)} completions and their prompts reach the trainer id by id; "
                  f"{_num_changed(sample, bench.tokenizer)} would change if decoded and tokenized again")  # fmt: skip


def prompt_fault(prompts: Any, config: DatasetConfig, tokenizer: Any) -> Verdict | None:
    """The first prompt whose ids are not those of the tokenizer's own template, or None."""
    bos = tokenizer.bos_token_id
    for prompt in prompts:
        if bos is not None and prompt.token_ids[:2] == (bos, bos):
            return _wrong(
                f"prompts begin with the beginning-of-sequence token {tokenizer.bos_token!r} twice: once from the "
                "chat template, once from the tokenizer",
                "dataset.chat_template",
            )
        expected = own_rendering(prompt, config, tokenizer)
        if expected is not None and expected != prompt.token_ids:
            if uses_chat_template(config, tokenizer):
                what = "are not those that the model's own chat template makes"
            else:
                what = "are not those of the plain text"
            return _wrong(f"the ids of prompt {prompt.prompt_id} {what}", "dataset.chat_template")
    return None


def own_rendering(prompt: Prompt, config: DatasetConfig, tokenizer: Any) -> tuple[int, ...] | None:
    """Ids of the row's text, rendered and tokenized in one call; None where the row no longer holds it."""
    content = prompt.row.get(config.prompt_column)
    if content is None:
        return None
    if not uses_chat_template(config, tokenizer):
        ids = tuple(tokenizer(f"{content}{config.prompt_suffix}", verbose=False)["input_ids"])
        return ids[:-1] if ids[-1:] == (tokenizer.eos_token_id,) else ids
    messages = [{"role": "user", "content": content}] if isinstance(content, str) else [dict(m) for m in content]
    messages[-1]["content"] += config.prompt_suffix
    if config.system_prompt is not None:
        messages.insert(0, {"role": "system", "content": config.system_prompt})
    return tuple(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False))


def _same(kept: list[int], sampled: list[int]) -> bool:
    """Equal, or without the last token: an end token that is not scored is the next rung's."""
    return kept == sampled or kept == sampled[:-1]


def _num_changed(sample: Sample, tokenizer: Any) -> int:
    """Completions that a round trip through text would change: why ids travel."""
    changed = 0
    for t in sample.trajectories:
        again = tokenizer(tokenizer.decode(list(t.response_token_ids)), add_special_tokens=False, verbose=False)
        changed += tuple(again["input_ids"]) != t.response_token_ids
    return changed


def _wrong(cause: str, key: str) -> Verdict:
    return failed(RUNG, "prompts and completions id by id", cause, key)
