"""Loading the model's tokenizer, with what generation needs of it checked.

Which token ids end a completion: all that the model's files name.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from configs.errors import ConfigError, refused
from rollout.data.hub import use_cache_if_unreachable
from rollout.data.model_files import read_model_json, vocab_size

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


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


NEWER_CLASS = "TokenizersBackend"
TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "tekken.json",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
)


def load_tokenizer(model_path: str, trust_remote_code: bool = False) -> "PreTrainedTokenizerBase":
    """The tokenizer in a folder or hub repository.

    Raises:
        ConfigError: when it is missing or unreadable, needs code that may not run, has no end-of-sequence token,
            or makes token ids that the model has no embedding for.
    """
    _check_folder(model_path)
    if not Path(model_path).is_dir():
        use_cache_if_unreachable()
    try:
        tokenizer = _from_pretrained(model_path, trust_remote_code)
    except Exception as error:  # the tokenizers library raises bare Exception on damaged files
        raise _unreadable(model_path, error) from error
    _check_tokens(tokenizer, model_path)
    return tokenizer


def _from_pretrained(model_path: str, trust_remote_code: bool) -> "PreTrainedTokenizerBase":
    # Seconds to import, which `proxrl --help` need not pay.
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    try:
        return AutoTokenizer.from_pretrained(model_path, trust_remote_code=trust_remote_code)
    except ValueError as error:
        # Transformers 4, beside an older engine, does not know the class that version 5 writes; the file is the same.
        if NEWER_CLASS not in str(error):
            raise
        return PreTrainedTokenizerFast.from_pretrained(model_path)


def eos_token_ids(tokenizer: "PreTrainedTokenizerBase", model_path: str) -> tuple[int, ...]:
    """Every id that ends a completion, ascending: the tokenizer's own and those that the model's configs list."""
    configs = (read_model_json(model_path, name) for name in ("generation_config.json", "config.json"))
    return end_token_ids(tokenizer, *configs)


def silent_token_ids(tokenizer: "PreTrainedTokenizerBase", model_path: str) -> frozenset[int]:
    """Ids that frame a completion without being part of its text: end, pad and begin tokens.

    Other special tokens stay in the text: a model may have learned to answer in tags that its tokenizer declares
    special, and a reward must see them.
    """
    frame = {tokenizer.pad_token_id, tokenizer.bos_token_id, *eos_token_ids(tokenizer, model_path)}
    return frozenset(i for i in frame if i is not None)


def completion_text(tokenizer: "PreTrainedTokenizerBase", token_ids: Iterable[int], silent: frozenset[int]) -> str:
    """Text of sampled tokens as rewards and people read it, without the `silent` ones."""
    text = tokenizer.decode([i for i in token_ids if i not in silent], skip_special_tokens=False)
    assert isinstance(text, str)
    return text


def _check_folder(model_path: str) -> None:
    folder = Path(model_path).expanduser()
    looks_local = model_path.startswith(("/", ".", "~")) or model_path.count("/") > 1
    if not folder.exists() and looks_local:
        raise refused("model.path", model_path, "is no folder", "name an existing folder or a model on the hub")
    if folder.is_file():
        raise refused("model.path", model_path, "is a file", "name the folder that holds the model")
    if folder.is_dir() and not any((folder / name).exists() for name in TOKENIZER_FILES):
        raise refused(
            "model.path",
            model_path,
            f"holds no tokenizer (none of {', '.join(TOKENIZER_FILES)})",
            "copy the tokenizer's files beside the weights, or save it there with tokenizer.save_pretrained",
        )


def _unreadable(model_path: str, error: Exception) -> ConfigError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "trust_remote_code" in str(error):
        return refused(
            "model.path",
            model_path,
            "comes with Python code of its own for its tokenizer",
            "set model.trust_remote_code=true if you trust that code",
        )
    if Path(model_path).is_dir():
        return refused(
            "model.path", model_path, f"holds a tokenizer that cannot be read ({reason})", "download or save it again"
        )
    return refused(
        "model.path",
        model_path,
        f"is neither a folder here nor a model that could be fetched from the hub ({reason})",
        "check the name, the network and HF_TOKEN, or name a local folder",
    )


def _check_tokens(tokenizer: "PreTrainedTokenizerBase", model_path: str) -> None:
    ids = eos_token_ids(tokenizer, model_path)
    if not ids:
        raise refused(
            "model.path",
            model_path,
            "has no end-of-sequence token, so no completion would ever end",
            "set eos_token in its tokenizer_config.json or eos_token_id in its generation_config.json",
        )
    rows = vocab_size(model_path)
    if rows is None:
        return
    # Added tokens (padding, for one) may lie beyond the embedding as long as nobody uses them.
    highest = max([*ids, tokenizer.vocab_size - 1])
    if highest >= rows:
        raise refused(
            "model.path",
            model_path,
            f"has a tokenizer with token id {highest} and a model of only {rows} embeddings",
            "use the tokenizer that belongs to the model, or resize the model's embeddings",
        )
