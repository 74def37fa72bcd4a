"""Which token ids end a completion: all that the model's files name."""

from collections.abc import Iterable
from typing import Any


def end_token_ids(*sources: Any) -> tuple[int, ...]:
    """Union of `eos_token_id` (an id, a list of ids, or absent) of configs and tokenizers, ascending.

    Chat models name several, and not all in one place: the base model's in the config, the turn's end in the
    generation config or the tokenizer. A token missed here would let completions run on past their end.
    """
    ids: set[int] = set()
    for source in sources:
        value = source.get("eos_token_id") if isinstance(source, dict) else getattr(source, "eos_token_id", None)
        if value is not None:
            ids.update(value if isinstance(value, Iterable) else (value,))
    return tuple(sorted(int(i) for i in ids))
