"""Reading usable data sets of every kind."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from configs.schema import DatasetConfig
from rollout.data.dataset import PromptSet, load_prompts
from rollout.data.dataset_source import writable_cache
from tests.rollout.tiny_tokenizers import CHATML, byte_tokenizer

ROWS = [{"question": f"{n} + {n}?", "answer": f"#### {2 * n}"} for n in range(5)]


def jsonl(path: Path, rows: Sequence[Mapping[str, Any]] = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def parquet(path: Path, rows: Sequence[Mapping[str, Any]] = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


def load(path: Path, template: str | None = None, **settings: Any) -> PromptSet:
    config = DatasetConfig(path=str(path), **settings)
    return load_prompts(config, byte_tokenizer(template), max_new_tokens=8)


def check_whole(prompts: PromptSet, rows: Sequence[Mapping[str, Any]] = ROWS) -> None:
    assert [p.text for p in prompts.prompts] == [r["question"] for r in rows]
    assert [p.answer for p in prompts.prompts] == [r["answer"] for r in rows]
    assert [p.prompt_id for p in prompts.prompts] == [str(i) for i in range(len(rows))]
    assert prompts.num_dropped == {}


def test_jsonl_in_order_with_rows_and_token_ids(tmp_path: Path) -> None:
    prompts = load(jsonl(tmp_path / "a.jsonl"))
    check_whole(prompts)
    assert prompts.prompts[3].row == ROWS[3]
    assert byte_tokenizer().decode(prompts.prompts[3].token_ids) == "3 + 3?"


def test_blank_lines_byte_order_mark_and_odd_separators_are_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"question": "line\u2028separator", "answer": "1"}, {"question": "β", "answer": "2"}]
    lines = [json.dumps(r, ensure_ascii=False) for r in rows]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n\n".join(lines).encode() + b"\n\n")
    check_whole(load(path), rows)


@pytest.mark.parametrize("indent", [None, 2])
def test_json_list(tmp_path: Path, indent: int | None) -> None:
    (tmp_path / "a.json").write_text(json.dumps(ROWS, indent=indent))
    check_whole(load(tmp_path / "a.json"))


def test_json_file_that_holds_json_lines(tmp_path: Path) -> None:
    check_whole(load(jsonl(tmp_path / "a.json")))


def test_parquet(tmp_path: Path) -> None:
    check_whole(load(parquet(tmp_path / "a.parquet")))


def test_folder_by_split_name_configuration_and_shards(tmp_path: Path) -> None:
    jsonl(tmp_path / "test.jsonl", ROWS[:2])
    parquet(tmp_path / "main" / "train-00000-of-00002.parquet", ROWS[:3])
    parquet(tmp_path / "main" / "train-00001-of-00002.parquet", ROWS[3:])
    check_whole(load(tmp_path))
    check_whole(load(tmp_path, split="test"), ROWS[:2])


def test_folder_of_another_shape_is_read_by_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    datasets.disable_progress_bars()
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train.csv").write_text("question,answer\n0 + 0?,#### 0\n1 + 1?,#### 2\n")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("rollout.data.dataset_source.writable_cache", lambda: str(tmp_path / "cache"))
    check_whole(load(tmp_path / "set"), ROWS[:2])


def test_cache_moves_to_the_temporary_folder_where_the_usual_one_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert writable_cache() is None
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert str(writable_cache()).startswith(tempfile.gettempdir())


def test_data_set_saved_by_datasets(tmp_path: Path) -> None:
    import datasets

    datasets.disable_progress_bars()
    datasets.DatasetDict({"train": datasets.Dataset.from_list(ROWS)}).save_to_disk(tmp_path / "set")
    check_whole(load(tmp_path / "set"))


@pytest.mark.parametrize(
    ("saved_as", "folder", "split"),
    [(None, "set", "train"), ("train", "set", "train"), ("test", "held_out", "test"), (None, "test", "test")],
)
def test_single_data_set_serves_its_own_split(saved_as: str | None, folder: str, split: str, tmp_path: Path) -> None:
    import datasets

    datasets.disable_progress_bars()
    datasets.Dataset.from_list(ROWS, split=saved_as).save_to_disk(tmp_path / folder)
    check_whole(load(tmp_path / folder, split=split))


def test_columns_inside_of_columns_are_dotted(tmp_path: Path) -> None:
    """As verl's Parquet has them; a column whose own name has the dot comes first."""
    rows = [{"question": "a?", "reward_model": {"ground_truth": "1", "style": "rule"}}]
    (prompt,) = load(parquet(tmp_path / "a.parquet", rows), answer_column="reward_model.ground_truth").prompts
    assert prompt.answer == "1"
    (prompt,) = load(
        jsonl(tmp_path / "b.jsonl", [rows[0] | {"reward_model.ground_truth": "2"}]),
        answer_column="reward_model.ground_truth",
    ).prompts
    assert prompt.answer == "2"


def test_file_called_by_its_split_serves_that_split(tmp_path: Path) -> None:
    check_whole(load(jsonl(tmp_path / "test.jsonl"), split="test"))


def test_columns_and_ids_of_other_names(tmp_path: Path) -> None:
    rows = [{"uid": 7, "q": "a?", "a": "1"}, {"uid": "x", "q": "b?", "a": "2"}]
    prompts = load(jsonl(tmp_path / "a.jsonl", rows), prompt_column="q", answer_column="a", id_column="uid").prompts
    assert [(p.prompt_id, p.text, p.answer) for p in prompts] == [("7", "a?", "1"), ("x", "b?", "2")]


def test_limit_takes_the_first_rows_and_does_not_read_on(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl")
    path.write_text(path.read_text() + "not JSON\n")
    check_whole(load(path, limit=5))
    check_whole(load(parquet(tmp_path / "a.parquet"), limit=2), ROWS[:2])


def test_suffix_and_chat_template(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", ROWS[:1])
    (prompt,) = load(path, CHATML, prompt_suffix=" Why?").prompts
    assert byte_tokenizer(CHATML).decode(prompt.token_ids) == (
        "<|im_start|>user\n0 + 0? Why?<|im_end|>\n<|im_start|>assistant\n"
    )
    (plain,) = load(path, CHATML, prompt_suffix=" Why?", chat_template="never").prompts
    assert byte_tokenizer().decode(plain.token_ids) == "0 + 0? Why?"
    assert prompt.text == plain.text == "0 + 0?"


def test_chat_messages_as_prompts(tmp_path: Path) -> None:
    rows = [{"question": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}], "answer": "1"}]
    for path in (jsonl(tmp_path / "a.jsonl", rows), parquet(tmp_path / "a.parquet", rows)):
        (prompt,) = load(path, CHATML).prompts
        assert byte_tokenizer(CHATML).decode(prompt.token_ids) == (
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n"
        )
        assert prompt.text == "U"


def test_long_prompts_are_dropped_counted_and_keep_the_others_ids(tmp_path: Path) -> None:
    rows = [{"question": "x" * n, "answer": "1"} for n in (3, 11, 10, 20)]
    path = jsonl(tmp_path / "a.jsonl", rows)
    prompts = load(path, max_prompt_tokens=10)
    assert [p.prompt_id for p in prompts.prompts] == ["0", "2"]
    assert prompts.num_dropped == {"too_long": 2}


def test_prompts_without_room_for_an_answer_are_dropped_and_counted_apart(tmp_path: Path) -> None:
    rows = [{"question": "x" * n, "answer": "1"} for n in (12, 13, 40)]
    config = DatasetConfig(path=str(jsonl(tmp_path / "a.jsonl", rows)), max_prompt_tokens=30)
    prompts = load_prompts(config, byte_tokenizer(), max_new_tokens=8, max_model_len=20)
    assert [len(p.token_ids) for p in prompts.prompts] == [12]
    assert prompts.num_dropped == {"no_room_for_answer": 1, "too_long": 1}
