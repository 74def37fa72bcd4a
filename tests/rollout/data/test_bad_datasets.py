"""Data sets that cannot be used: each is refused with one sentence that names the place and the remedy."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from configs.errors import ConfigError
from configs.schema import DatasetConfig
from rollout.data.dataset import load_prompts
from tests.rollout.tiny_tokenizers import CHATML, NO_SYSTEM, byte_tokenizer, word_tokenizer

GOOD = {"question": "1 + 1?", "answer": "#### 2"}


@dataclass(frozen=True)
class Bad:
    """A file (bytes, text, or rows as JSON lines), settings, and a pattern that the message matches."""

    message: str
    content: Any = None
    name: str = "a.jsonl"
    settings: dict[str, Any] = field(default_factory=dict)
    chat_template: str | None = None
    max_model_len: int | None = None


def with_prompt(value: Any) -> list[dict[str, Any]]:
    return [GOOD, GOOD | {"question": value}]


def with_answer(value: Any) -> list[dict[str, Any]]:
    return [GOOD, GOOD | {"answer": value}]


def with_ids(*ids: Any) -> list[dict[str, Any]]:
    return [GOOD | {"uid": i} for i in ids]


USER = {"role": "user", "content": "hi"}
IDS = {"id_column": "uid"}

BAD = {
    "no such file": Bad(r"dataset.path=\S*a.jsonl does not exist .*name an existing file"),
    "kind that is not read": Bad(r"is not a file of a supported kind.*\.jsonl, \.json, \.parquet", "x,y\n", "a.csv"),
    "empty file": Bad(r"holds no rows; name a data set with at least one row", ""),
    "only blank lines": Bad(r"holds no rows", "\n\n  \n"),
    "empty JSON file": Bad(r"holds no rows", "", "a.json"),
    "empty JSON list": Bad(r"holds no rows", "[]", "a.json"),
    "malformed line": Bad(
        r"line 2, column 13 is not valid JSON .*fix a\.jsonl", json.dumps(GOOD) + '\n{"question": \n'
    ),
    "cut in the middle": Bad(r"line 2, column 23 is not valid JSON", json.dumps(GOOD) + '\n{"question": "1 + 1?",'),
    "malformed after blank lines": Bad(r"line 4, .* is not valid JSON", json.dumps(GOOD) + "\n\n\nnot json"),
    "single quotes": Bad(r"line 1, column 2 is not valid JSON", "{'question': 'a', 'answer': 'b'}\n"),
    "line that is a list": Bad(r"line 1 is a list, not an object", '["a", "b"]\n'),
    "line that is a number": Bad(r"line 2 is a number, not an object", json.dumps(GOOD) + "\n7\n"),
    "not UTF-8": Bad(r"line 2 is not UTF-8.*convert the file", json.dumps(GOOD).encode() + b'\n{"question": "\xe9"}\n'),
    "JSON that is one object": Bad(r"holds one object, not a list of rows", json.dumps(GOOD), "a.json"),
    "JSON list of strings": Bad(r"row 0 is a string, not an object", '["a"]', "a.json"),
    "malformed JSON file": Bad(r"line 3 is not valid JSON", '[\n{"question": "a"},\n{,\n]', "a.json"),
    "Parquet that is none": Bad(r"no readable Parquet file", "text", "a.parquet"),
    "missing prompt column": Bad(
        r"dataset.prompt_column=question is not a column .* at line 1, which has 'questions', 'answer'; "
        r"set dataset.prompt_column=questions",
        [{"questions": "a", "answer": "b"}],
    ),
    "missing answer column": Bad(
        r"dataset.answer_column=answer is not a column .*which has 'question', 'solution'; set dataset.answer_column",
        [{"question": "a", "solution": "b"}],
    ),
    "missing id column": Bad(
        r"dataset.id_column=uid is not a column .*which has 'question', 'answer'", [GOOD], settings=IDS
    ),
    "row without columns": Bad(r"at line 2, which has no columns", [GOOD, {}]),
    "one row lacks the column": Bad(
        r"dataset.answer_column=answer is not a column .* at line 2", [GOOD, {"question": "a"}]
    ),
    "empty prompt": Bad(r"line 2: the column 'question' \(dataset.prompt_column\) is empty", with_prompt("")),
    "blank prompt": Bad(r"line 2: .* is empty", with_prompt(" \n\t")),
    "half a character": Bad(
        r"line 2: .* holds half a character \(\\ud83d\); write it whole", with_prompt("a \ud83d b")
    ),
    "half a character in a message": Bad(
        r"line 2: .* holds half a character", with_prompt([USER | {"content": "\ude00"}]), chat_template=CHATML
    ),
    "number without end": Bad(r"line 1 cannot be read \(.*digits.*\); fix a\.jsonl", '{"n": ' + "7" * 5000 + "}\n"),
    "null prompt": Bad(r"line 2: .* is null, neither a string nor", with_prompt(None)),
    "number as prompt": Bad(r"line 2: .* is int '7', neither a string nor", with_prompt(7)),
    "object as prompt": Bad(r"line 2: .* is dict", with_prompt(USER)),
    "no messages": Bad(r"line 2: .* is an empty list of chat messages", with_prompt([]), chat_template=CHATML),
    "message without role": Bad(r"without 'role' and 'content'", with_prompt([{"content": "a"}]), chat_template=CHATML),
    "message that is text": Bad(r"without 'role' and 'content'", with_prompt(["hi"]), chat_template=CHATML),
    "unknown role": Bad(
        r"role 'human', which is none of system, user", with_prompt([USER | {"role": "human"}]), chat_template=CHATML
    ),
    "content in parts": Bad(
        r"content is list, not a string", with_prompt([USER | {"content": []}]), chat_template=CHATML
    ),
    "assistant has the last word": Bad(
        r"ends with the assistant's turn", with_prompt([USER, USER | {"role": "assistant"}]), chat_template=CHATML
    ),
    "empty last message": Bad(
        r"ends with an empty message", with_prompt([USER | {"content": " "}]), chat_template=CHATML
    ),
    "messages without a template": Bad(r"line 2: .* holds chat messages, but .* plain text", with_prompt([USER])),
    "messages against chat_template=never": Bad(
        r"plain text; .*dataset.chat_template=auto",
        with_prompt([USER]),
        chat_template=CHATML,
        settings={"chat_template": "never"},
    ),
    "system message twice": Bad(
        r"line 1: the prompt has a system message of its own",
        [GOOD | {"question": [USER | {"role": "system"}, USER]}],
        chat_template=CHATML,
        settings={"system_prompt": "s"},
    ),
    "template without system role": Bad(
        r"line 1: the prompt is refused by the tokenizer's chat template \(System role not supported\)",
        [GOOD],
        chat_template=NO_SYSTEM,
        settings={"system_prompt": "s"},
    ),
    "system prompt without template": Bad(
        r"dataset.system_prompt=s would be ignored: the tokenizer has no chat template",
        [GOOD],
        settings={"system_prompt": "s"},
    ),
    "system prompt against chat_template=never": Bad(
        r"would be ignored: dataset.chat_template=never",
        [GOOD],
        chat_template=CHATML,
        settings={"system_prompt": "s", "chat_template": "never"},
    ),
    "number as answer": Bad(
        r"line 2: the column 'answer' \(dataset.answer_column\) is the int 2, not a string", with_answer(2)
    ),
    "list as answer": Bad(r"line 2: .* is the list", with_answer(["2"])),
    "null answer": Bad(r"line 2: .* is null, not a string", with_answer(None)),
    "empty answer": Bad(r"line 2: .* is empty; fill it in or remove the row", with_answer(" ")),
    "half a character in an answer": Bad(
        r"line 2: the column 'answer' \(dataset.answer_column\) holds half a character", with_answer("\ude00 2")
    ),
    "duplicate ids": Bad(
        r"line 3: the column 'uid' .* repeats the id 'a' of line 1", with_ids("a", "b", "a"), settings=IDS
    ),
    "ids equal as text": Bad(r"repeats the id '1' of line 1", with_ids(1, "1"), settings=IDS),
    "half a character in an id": Bad(
        r"line 2: the column 'uid' \(dataset.id_column\) holds half a character \(\\ud83d\); write it whole",
        with_ids("a", "b\ud83d"),
        settings=IDS,
    ),
    "null id": Bad(r"line 2: .* is None, neither a string nor a whole number", with_ids("a", None), settings=IDS),
    "fraction as id": Bad(r"is 1.5, neither", with_ids(1.5), settings=IDS),
    "empty id": Bad(r"is empty; give every row an id, or unset dataset.id_column", with_ids(""), settings=IDS),
    "all too long": Bad(
        r"dataset.max_prompt_tokens=3 drops all 1 prompts of .*shortest of which has 6 tokens; raise it",
        [GOOD],
        settings={"max_prompt_tokens": 3},
    ),
    "no prompt fits the context": Bad(
        r"no prompt that fits: 0 exceed .* and 1 leave no room .*\(4 tokens are left for prompts, the shortest .* 6\)",
        [GOOD],
        max_model_len=12,
    ),
    "no room for any prompt": Bad(
        r"rollout.sampling.max_new_tokens=8 leaves no room for a prompt in the model's context of 8 tokens; lower it",
        [GOOD],
        max_model_len=8,
    ),
    "limit of nothing": Bad(r"dataset.limit=0 leaves no rows", [GOOD], settings={"limit": 0}),
    "no tokens allowed": Bad(
        r"dataset.max_prompt_tokens=0 leaves no prompts", [GOOD], settings={"max_prompt_tokens": 0}
    ),
    "name for a file": Bad(
        r"dataset.name=socratic has no meaning for a local file; remove it", [GOOD], settings={"name": "socratic"}
    ),
    "dotted name that is not there": Bad(
        r"dataset.answer_column=reward_model.truth is not a column "
        r".*which has 'question', 'reward_model.ground_truth'; "
        r"set dataset.answer_column=reward_model.ground_truth",
        [{"question": "a", "reward_model": {"ground_truth": "b"}}],
        settings={"answer_column": "reward_model.truth"},
    ),
    "one shard of several": Bad(
        r"dataset.path=\S*train-00000-of-00002.jsonl is one of the 2 files of a split; name their folder, \S+, to read",
        [GOOD],
        "train-00000-of-00002.jsonl",
    ),
    "split of a file": Bad(
        r"dataset.split=test is not a split of the local file "
        r".*only 'train'; name the file of that split in dataset.path",
        [GOOD],
        settings={"split": "test"},
    ),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_bad_data_set_is_refused_with_its_message(case: Bad, tmp_path: Path) -> None:
    path = tmp_path / case.name
    if isinstance(case.content, bytes):
        path.write_bytes(case.content)
    elif isinstance(case.content, str):
        path.write_text(case.content)
    elif case.content is not None:
        path.write_text("".join(json.dumps(row) + "\n" for row in case.content))
    config = DatasetConfig(path=str(path), **case.settings)
    with pytest.raises(ConfigError, match=case.message) as refusal:
        load_prompts(config, byte_tokenizer(case.chat_template), max_new_tokens=8, max_model_len=case.max_model_len)
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).endswith(".")


def refusal_of(path: Path, **settings: Any) -> str:
    with pytest.raises(ConfigError) as refusal:
        load_prompts(DatasetConfig(path=str(path), **settings), byte_tokenizer(), max_new_tokens=8)
    return str(refusal.value)


def test_empty_folder(tmp_path: Path) -> None:
    assert "is an empty folder; put train.jsonl into it" in refusal_of(tmp_path)


def test_folder_without_the_split(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(json.dumps(GOOD))
    assert "check dataset.split" in refusal_of(tmp_path, split="validation")


def test_saved_data_set_without_the_split(tmp_path: Path) -> None:
    import datasets

    datasets.disable_progress_bars()
    datasets.DatasetDict({"train": datasets.Dataset.from_list([GOOD])}).save_to_disk(tmp_path / "set")
    assert "dataset.split=test is not a split of" in refusal_of(tmp_path / "set", split="test")


@pytest.mark.parametrize("split", [None, "train"])
def test_saved_single_data_set_of_another_split(split: str | None, tmp_path: Path) -> None:
    import datasets

    rows = datasets.Dataset.from_list([GOOD], split=split)
    rows.save_to_disk(tmp_path / "set")
    message = refusal_of(tmp_path / "set", split="test")
    assert "dataset.split=test is not a split of" in message
    assert "which holds one data set called 'train'; name the folder of that split in dataset.path" in message


def test_split_that_lacks_a_file(tmp_path: Path) -> None:
    for index in (0, 2):
        (tmp_path / f"train-0000{index}-of-00003.jsonl").write_text(json.dumps(GOOD))
    assert "holds 2 of the 3 files of the split 'train'; add number 1" in refusal_of(tmp_path)


def test_split_in_two_versions(tmp_path: Path) -> None:
    for name in ("00000-of-00001", "00000-of-00002", "00001-of-00002"):
        (tmp_path / f"train-{name}.jsonl").write_text(json.dumps(GOOD))
    assert "holds files of two versions of the split 'train' (in 1 and in 2 files)" in refusal_of(tmp_path)


def test_malformed_line_of_one_shard_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "train-0.jsonl").write_text(json.dumps(GOOD))
    (tmp_path / "train-1.jsonl").write_text("{")
    assert "train-1.jsonl: line 1, column 2 is not valid JSON" in refusal_of(tmp_path)


def test_null_in_a_parquet_column_names_the_row(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([GOOD, GOOD | {"answer": None}]), tmp_path / "a.parquet")
    assert "row 1: the column 'answer' (dataset.answer_column) is null" in refusal_of(tmp_path / "a.parquet")


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(GOOD))

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    assert f"dataset.path={path}: [Errno 13] Permission denied" in refusal_of(path)


def test_prompt_without_a_known_token(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(GOOD | {"question": "zwei plus zwei"}))
    with pytest.raises(ConfigError, match=r"line 1: the tokenizer knows no token of the prompt 'zwei plus zwei'"):
        load_prompts(DatasetConfig(path=str(path)), word_tokenizer(["two", "plus_"]), max_new_tokens=8)
