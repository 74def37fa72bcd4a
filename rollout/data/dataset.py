"""The data set as prompts: read, checked, tokenized once, and cut to what fits."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from configs.errors import ConfigError, refused
from configs.schema import DatasetConfig
from exchange.types import Prompt
from rollout.data.dataset_rows import CheckedRow, check_rows
from rollout.data.dataset_source import DatasetKeys, read_rows
from rollout.data.prompts import encode_chats, encode_texts, prompt_text, render_chat, uses_chat_template

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TOO_LONG = "too_long"  # more than dataset.max_prompt_tokens
NO_ROOM = "no_room_for_answer"  # prompt and max_new_tokens together exceed the model's context


@dataclass(frozen=True)
class PromptSet:
    """Usable prompts in the data set's order, and how many rows were left out, by reason."""

    prompts: list[Prompt]
    num_dropped: dict[str, int]


def load_prompts(
    config: DatasetConfig,
    tokenizer: "PreTrainedTokenizerBase",
    *,
    max_new_tokens: int,
    max_model_len: int | None = None,
    keys: DatasetKeys | None = None,
    now: datetime | None = None,
) -> PromptSet:
    """Read and tokenize a data set.

    Args:
        config: where the rows are and which columns count.
        tokenizer: the model's.
        max_new_tokens: room that an answer needs, in tokens.
        max_model_len: the model's context in tokens; None does not check it.
        keys: config keys that name the data set; None means dataset.path and dataset.split.
        now: what a chat template that writes the date reads; None means the time of the call.

    Raises:
        ConfigError: when the data set cannot be used, naming the row and the key.
    """
    _check_settings(config, tokenizer, max_new_tokens, max_model_len)
    keys = keys or DatasetKeys()
    rows = check_rows(read_rows(config, keys), config)
    encoded = _encode(rows, config, tokenizer, now)
    _check_vocabulary(rows, encoded, config, tokenizer)
    room = None if max_model_len is None else max_model_len - max_new_tokens
    prompts: list[Prompt] = []
    dropped: Counter[str] = Counter()
    for row, ids in zip(rows, encoded, strict=True):
        if len(ids) > config.max_prompt_tokens:
            dropped[TOO_LONG] += 1
        elif room is not None and len(ids) > room:
            dropped[NO_ROOM] += 1
        else:
            prompts.append(Prompt(row.prompt_id, ids, row.answer, row.columns, prompt_text(row.content)))
    if not prompts:
        raise _all_dropped(dropped, min(map(len, encoded)), config, keys, room)
    return PromptSet(prompts, dict(dropped))


def _check_settings(
    config: DatasetConfig, tokenizer: "PreTrainedTokenizerBase", max_new_tokens: int, max_model_len: int | None
) -> None:
    if config.limit is not None and config.limit < 1:
        raise refused("dataset.limit", config.limit, "leaves no rows", "set it to 1 or more, or to null for all")
    if config.max_prompt_tokens < 1:
        raise refused("dataset.max_prompt_tokens", config.max_prompt_tokens, "leaves no prompts", "set it to 1 or more")
    if config.system_prompt is not None and not uses_chat_template(config, tokenizer):
        why = "the tokenizer has no chat template" if not tokenizer.chat_template else "dataset.chat_template=never"
        raise refused(
            "dataset.system_prompt",
            config.system_prompt,
            f"would be ignored: {why}",
            "remove it, or write it into the prompts",
        )
    if max_model_len is not None and max_new_tokens >= max_model_len:
        raise refused(
            "rollout.sampling.max_new_tokens",
            max_new_tokens,
            f"leaves no room for a prompt in the model's context of {max_model_len} tokens",
            "lower it",
        )


def _encode(
    rows: Sequence[CheckedRow], config: DatasetConfig, tokenizer: "PreTrainedTokenizerBase", now: datetime | None
) -> list[tuple[int, ...]]:
    key = "dataset.prompt_column"
    if uses_chat_template(config, tokenizer):
        texts = []
        for row in rows:
            try:
                texts.append(render_chat(row.content, config, tokenizer, now))
            except ValueError as error:
                raise ConfigError(f"{config.path}, {row.where}: the prompt {error}.", key) from error
        return encode_chats(texts, tokenizer)
    for row in rows:
        if not isinstance(row.content, str):
            raise ConfigError(
                f"{config.path}, {row.where}: the column {config.prompt_column!r} ({key}) holds chat messages, but "
                "the prompts are tokenized as plain text; use a tokenizer with a chat template and "
                "dataset.chat_template=auto, or a column of strings.",
                key,
            )
    return encode_texts([f"{row.content}{config.prompt_suffix}" for row in rows], tokenizer)


def _check_vocabulary(
    rows: Sequence[CheckedRow],
    encoded: Sequence[tuple[int, ...]],
    config: DatasetConfig,
    tokenizer: "PreTrainedTokenizerBase",
) -> None:
    special = {tokenizer.unk_token_id, tokenizer.bos_token_id}
    for row, ids in zip(rows, encoded, strict=True):
        if special.issuperset(ids):
            raise ConfigError(
                f"{config.path}, {row.where}: the tokenizer knows no token of the prompt "
                f"{prompt_text(row.content)[:60]!r}; use the model's own tokenizer and a data set in its language.",
                "model.path",
            )


def _all_dropped(
    dropped: Counter[str], shortest: int, config: DatasetConfig, keys: DatasetKeys, room: int | None
) -> ConfigError:
    total = dropped.total()
    if dropped[TOO_LONG] == total:
        return refused(
            "dataset.max_prompt_tokens",
            config.max_prompt_tokens,
            f"drops all {total} prompts of {config.path}, the shortest of which has {shortest} tokens",
            "raise it",
        )
    return refused(
        keys.path,
        config.path,
        f"has no prompt that fits: {dropped[TOO_LONG]} exceed dataset.max_prompt_tokens={config.max_prompt_tokens} and "
        f"{dropped[NO_ROOM]} leave no room for rollout.sampling.max_new_tokens in the model's context "
        f"({room} tokens are left for prompts, the shortest prompt has {shortest})",
        "lower rollout.sampling.max_new_tokens or use shorter prompts",
    )
