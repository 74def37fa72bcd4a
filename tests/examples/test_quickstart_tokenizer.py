"""The small tokenizer: exact both ways, single digits, and unchanged by a trip through a model's folder."""

import itertools
import json
from pathlib import Path

from examples.quickstart.problems import problems
from examples.quickstart.tokenizer import build_tokenizer, save_tokenizer
from examples.quickstart.warm_start import WarmStart, new_model
from rollout.data.tokenizer import load_tokenizer


def test_every_problem_survives_encoding_and_decoding() -> None:
    tokenizer = build_tokenizer()
    for problem in itertools.islice(problems(1, held_out=False), 300):
        for text in (problem.question, problem.worked, problem.guess):
            ids = tokenizer(text)["input_ids"]
            assert tokenizer.unk_token_id not in ids
            assert tokenizer.decode(ids) == text


def test_numbers_are_spelled_in_digits() -> None:
    tokenizer = build_tokenizer()
    assert tokenizer.convert_ids_to_tokens(tokenizer("12 * 3 = 36")["input_ids"]) == list("12*3=36")


def test_an_ended_completion_decodes_to_its_answer() -> None:
    tokenizer = build_tokenizer()
    ids = [*tokenizer("3 * 4 = 12\n#### 12")["input_ids"], tokenizer.eos_token_id]
    assert tokenizer.decode(ids, skip_special_tokens=True).endswith("#### 12")


def test_the_loader_reads_the_same_tokenizer_beside_a_model(tmp_path: Path) -> None:
    # transformers 5 replaces the tokenizer of some model types by the type's own class, whatever the folder says.
    tokenizer = save_tokenizer(tmp_path)
    new_model(tokenizer, WarmStart(hidden_size=64, num_layers=1)).save_pretrained(tmp_path)
    loaded = load_tokenizer(str(tmp_path))
    text = "Tom has 12 books and gets 3 more. Then Tom gives away 2. How many books are left?"
    assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert loaded.decode(loaded(text)["input_ids"]) == text
    assert loaded.eos_token_id == tokenizer.eos_token_id
    assert loaded.pad_token_id == tokenizer.pad_token_id


def test_the_saved_class_is_one_that_transformers_4_knows(tmp_path: Path) -> None:
    save_tokenizer(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
