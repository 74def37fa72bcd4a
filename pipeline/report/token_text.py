"""Token ids as text, one piece a token, so that each can be coloured by itself."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.report.run_data import RunData

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

INCOMPLETE = "\ufffd"
"""What decoding gives for bytes that are no whole character."""
MAX_BYTES_A_CHARACTER = 4


def tokenizer_of(run: RunData) -> "tuple[PreTrainedTokenizerBase | None, str]":
    """The run's tokenizer, or None and why there is none. A model's own Python code is never run for a page."""
    from rollout.data.tokenizer import load_tokenizer

    path = run.setting("model.path")
    if not isinstance(path, str):
        return None, "config.yaml names no model.path"
    try:
        return load_tokenizer(path, trust_remote_code=False), ""
    except ValueError as error:
        return None, str(error)


def token_texts(tokenizer: "PreTrainedTokenizerBase | None", token_ids: Sequence[int]) -> list[str]:
    """One text a token; joined they read as the completion. Without a tokenizer the ids themselves.

    Where several tokens make one character its text is put at the last of them.
    """
    if tokenizer is None:
        return [f"{i} " for i in token_ids]
    texts: list[str] = []
    previous: list[int] = []
    pending: list[int] = []
    for token_id in token_ids:
        pending.append(token_id)
        text = _text_after(tokenizer, previous, pending)
        if INCOMPLETE in text and len(pending) < MAX_BYTES_A_CHARACTER:
            texts.append("")
            continue
        texts.append(text)
        previous, pending = pending, []
    if pending:
        texts[-1] = _text_after(tokenizer, previous, pending)
    return texts


def _text_after(tokenizer: "PreTrainedTokenizerBase", previous: Sequence[int], token_ids: Sequence[int]) -> str:
    """What `token_ids` add to the text of `previous`: many tokenizers put a space only between two tokens."""
    before, both = _decoded(tokenizer, previous), _decoded(tokenizer, [*previous, *token_ids])
    return both[len(before) :] if both.startswith(before) else _decoded(tokenizer, token_ids)


def _decoded(tokenizer: "PreTrainedTokenizerBase", token_ids: Sequence[int]) -> str:
    text = tokenizer.decode(list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    assert isinstance(text, str)
    return text
