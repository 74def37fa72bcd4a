"""Checks of a data set's rows: columns, prompts, answers and ids, each problem with its row and config key."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from configs.errors import ConfigError
from configs.schema import DatasetConfig
from rollout.data.json_rows import Row
from rollout.data.prompts import prompt_problem, text_problem


@dataclass(frozen=True)
class CheckedRow:
    """A row whose prompt, answer and id are usable."""

    where: str
    prompt_id: str
    content: str | Sequence[Mapping[str, str]]
    answer: str
    columns: Mapping[str, Any]


def check_rows(rows: Sequence[Row], config: DatasetConfig) -> list[CheckedRow]:
    """Every row checked, in order.

    Raises:
        ConfigError: at the first row that cannot be used.
    """
    seen: dict[str, str] = {}
    checked = []
    for number, row in enumerate(rows):
        content = _column(row, config, "prompt_column")
        problem = prompt_problem(content)
        if problem is not None:
            raise _unusable(row, config, "prompt_column", problem)
        prompt_id = str(number) if config.id_column is None else _id(row, config)
        if prompt_id in seen:
            raise _unusable(
                row, config, "id_column", f"repeats the id {prompt_id!r} of {seen[prompt_id]}; ids must be unique"
            )
        seen[prompt_id] = row.where
        checked.append(CheckedRow(row.where, prompt_id, content, _answer(row, config), row.columns))
    return checked


def _column(row: Row, config: DatasetConfig, field: str) -> Any:
    column = getattr(config, field)
    if column in row.columns:
        return row.columns[column]
    value: Any = row.columns
    for name in str(column).split("."):
        if not isinstance(value, Mapping) or name not in value:
            break
        value = value[name]
    else:
        return value
    names = list(_names(row.columns))
    near = difflib.get_close_matches(str(column), names, n=1)
    advice = f"set dataset.{field}={near[0]}" if near else f"set dataset.{field} to one of them"
    raise ConfigError(
        f"dataset.{field}={column} is not a column of {config.path} at {row.where}, "
        f"which has {', '.join(map(repr, names)) or 'no columns'}; {advice}.",
        f"dataset.{field}",
    )


def _names(columns: Mapping[str, Any]) -> Iterator[str]:
    """Column names, those inside of columns of objects dotted: `reward_model.ground_truth`."""
    for name, value in columns.items():
        if isinstance(value, Mapping) and value:
            yield from (f"{name}.{inner}" for inner in _names(value))
        else:
            yield name


def _answer(row: Row, config: DatasetConfig) -> str:
    answer = _column(row, config, "answer_column")
    if not isinstance(answer, str):
        shown = "null" if answer is None else f"the {type(answer).__name__} {str(answer)[:40]}"
        raise _unusable(row, config, "answer_column", f"is {shown}, not a string; write answers as strings")
    if not answer.strip():
        raise _unusable(row, config, "answer_column", "is empty; fill it in or remove the row")
    if problem := text_problem(answer):
        raise _unusable(row, config, "answer_column", problem)
    return answer


def _id(row: Row, config: DatasetConfig) -> str:
    value = _column(row, config, "id_column")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _unusable(row, config, "id_column", f"is {value!r}, neither a string nor a whole number")
    prompt_id = str(value)
    if not prompt_id.strip():
        raise _unusable(row, config, "id_column", "is empty; give every row an id, or unset dataset.id_column")
    if problem := text_problem(prompt_id):
        raise _unusable(row, config, "id_column", problem)
    return prompt_id


def _unusable(row: Row, config: DatasetConfig, field: str, problem: str) -> ConfigError:
    key = f"dataset.{field}"
    column = getattr(config, field)
    return ConfigError(f"{config.path}, {row.where}: the column {column!r} ({key}) {problem}.", key)
