"""A tokenizer of whole words and single digits for the generated problems."""

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from examples.quickstart.problems import NAMES, SITUATIONS, THINGS

PAD, END, UNKNOWN = "<pad>", "<end>", "<unk>"
TOKEN = r"\d|[A-Za-z]+|#+|\n|[^\sA-Za-z\d#]"


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Every word of the problems is a token, every digit its own; decoding gives back the text exactly."""
    splitter = pre_tokenizers.Split(Regex(TOKEN), behavior="removed", invert=True)
    texts = [s.story.format(name="", things="", a=0, b=0, c=0) for s in SITUATIONS]
    words = vocabulary(splitter, [*texts, *NAMES, *THINGS])
    tokens = [PAD, END, UNKNOWN, "\n", *"0123456789", "+", "-", "*", "=", "####", *words]
    model = WordLevel({token: index for index, token in enumerate(dict.fromkeys(tokens))}, unk_token=UNKNOWN)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(Regex("^"), " "),
            decoders.Fuse(),
            decoders.Replace(Regex(r"(?<=\d) (?=\d)"), ""),
            decoders.Replace(Regex(r" (?=[.,?])"), ""),
            decoders.Replace(Regex(r" ?\n ?"), "\n"),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    )


def vocabulary(splitter: pre_tokenizers.PreTokenizer, texts: Iterable[str]) -> list[str]:
    """The distinct tokens of `texts`, sorted."""
    return sorted({token for text in texts for token, _ in splitter.pre_tokenize_str(text)})


def save_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Write the tokenizer to `folder` in the form that transformers 4 and 5 both read."""
    tokenizer = build_tokenizer()
    tokenizer.save_pretrained(folder)
    config = folder / "tokenizer_config.json"
    values = json.loads(config.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    config.write_text(json.dumps(values, indent=2))
    return tokenizer
