"""From a row's prompt to the token ids that sampler and trainer both see."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from configs.schema import DatasetConfig

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ROLES = ("system", "user", "assistant", "tool")


def uses_chat_template(config: DatasetConfig, tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether prompts are put into the tokenizer's chat template."""
    return config.chat_template == "auto" and bool(tokenizer.chat_template)


def prompt_problem(content: Any) -> str | None:
    """What is wrong with a prompt column's value, None for a usable text or list of chat messages."""
    if isinstance(content, str):
        return text_problem(content) if content.strip() else "is empty"
    if not isinstance(content, Sequence):
        shown = "null" if content is None else f"{type(content).__name__} {str(content)[:40]!r}"
        return f"is {shown}, neither a string nor a list of chat messages"
    if not content:
        return "is an empty list of chat messages"
    for message in content:
        if not isinstance(message, Mapping) or not {"role", "content"} <= message.keys():
            return f"has a chat message without 'role' and 'content': {str(message)[:60]}"
        if message["role"] not in ROLES:
            return f"has a chat message with role {message['role']!r}, which is none of {', '.join(ROLES)}"
        if not isinstance(message["content"], str):
            return f"has a chat message whose content is {type(message['content']).__name__}, not a string"
        if problem := text_problem(message["content"]):
            return problem
    if content[-1]["role"] == "assistant":
        return "ends with the assistant's turn, so there is nothing left to answer"
    if not content[-1]["content"].strip():
        return "ends with an empty message"
    return None


def text_problem(text: str) -> str | None:
    """What keeps a text from being written as UTF-8, None for one that can be."""
    half = next((c for c in text if "\ud800" <= c <= "\udfff"), None)
    return None if half is None else f"holds half a character (\\u{ord(half):x}); write it whole or remove it"


def prompt_text(content: str | Sequence[Mapping[str, str]]) -> str:
    """The question, without template, system prompt or suffix: the text, or the last message's."""
    return content if isinstance(content, str) else content[-1]["content"]


def reads_clock(tokenizer: "PreTrainedTokenizerBase") -> bool:
    """Whether the chat template writes the date or time into prompts."""
    return "strftime_now" in str(tokenizer.chat_template)


def render_chat(
    content: str | Sequence[Mapping[str, str]],
    config: DatasetConfig,
    tokenizer: "PreTrainedTokenizerBase",
    now: datetime | None = None,
) -> str:
    """The chat as one text in the tokenizer's template, up to where the assistant's answer begins.

    Args:
        content: of the prompt column.
        config: system prompt and suffix.
        tokenizer: its template.
        now: what the template's clock shows; None means the time of the call.

    Raises:
        ValueError: when there would be two system messages, or the template refuses the messages.
    """
    # Part of transformers' own template support.
    from jinja2 import TemplateError

    messages = [{"role": "user", "content": content}] if isinstance(content, str) else [dict(m) for m in content]
    messages[-1]["content"] += config.prompt_suffix
    if config.system_prompt is not None:
        if any(m["role"] == "system" for m in messages):
            raise ValueError("has a system message of its own; unset dataset.system_prompt")
        messages.insert(0, {"role": "system", "content": config.system_prompt})
    try:
        text = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, strftime_now=(now or datetime.now()).strftime
        )
    except TemplateError as error:
        raise ValueError(f"is refused by the tokenizer's chat template ({error})") from error
    assert isinstance(text, str)
    return text


def encode_chats(texts: Sequence[str], tokenizer: "PreTrainedTokenizerBase") -> list[tuple[int, ...]]:
    """Token ids of rendered chats; the template has written the special tokens, none is added."""
    encoded = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    return [tuple(ids) for ids in encoded]


def encode_texts(texts: Sequence[str], tokenizer: "PreTrainedTokenizerBase") -> list[tuple[int, ...]]:
    """Token ids of plain texts, begun as the tokenizer begins a text (once) and left open at the end."""
    encoded = tokenizer(list(texts), verbose=False)["input_ids"]
    return [_open_ended(tuple(ids), text, tokenizer) for ids, text in zip(encoded, texts, strict=True)]


def _open_ended(ids: tuple[int, ...], text: str, tokenizer: "PreTrainedTokenizerBase") -> tuple[int, ...]:
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    if bos is not None and ids[:2] == (bos, bos):
        ids = ids[1:]
    # Some tokenizers close every text; a closed prompt would ask for the text after the end.
    if eos is not None and ids[-1:] == (eos,) and not text.endswith(str(tokenizer.eos_token)):
        ids = ids[:-1]
    return ids
