"""The migration tables and what the loader says about a key of another system are the same."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from configs.errors import ConfigError
from configs.foreign_keys import FOREIGN_KEYS, WITHOUT_COUNTERPART
from configs.keys import leaves, sections
from configs.loading.loader import load_config
from configs.nearest import nearest_key
from tests.docs.page_commands import ROOT

PAGE = (ROOT / "docs" / "migration.md").read_text()
NO_KEY = "–"
# verl's short names of the time when its actor stood at the top; and a name before it was shortened.
PREFIXES = ("actor_rollout_ref.",)


@dataclass(frozen=True)
class Row:
    theirs: tuple[str, ...]
    ours: tuple[str, ...]


def rows() -> Iterator[Row]:
    """The rows whose left side is a key: a name that begins with a dot stands beside the one before it."""
    for line in PAGE.splitlines():
        if not line.startswith("| `") or "(argument" in line.split("|")[1]:
            continue
        _, left, right, *_ = line.split("|")
        theirs: list[str] = []
        for name in (span.split(":")[0] for span in re.findall(r"`([^`]+)`", left)):
            theirs.append(theirs[-1].rpartition(".")[0] + name if name.startswith(".") else name)
        ours = tuple(m[0] for span in re.findall(r"`([^`]+)`", right) if (m := re.match(r"[a-z_]+(?:\.\w+)+", span)))
        assert ours or NO_KEY in right or "the same" in right, line
        yield Row(tuple(theirs), ours)


ROWS = list(rows())
# Rows about a quantity that is made of several keys: each of them leads to its own.
COMPUTED = {"num_generations": "rollout.sampling.n_samples"}


def test_the_tables_are_read() -> None:
    assert len(ROWS) > 130
    assert sum(len(row.theirs) for row in ROWS) > 230


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.theirs[0])
def test_the_loader_names_our_key_of_the_row(row: Row) -> None:
    for key in row.theirs:
        if key in leaves():
            continue
        if not row.ours:
            assert key in WITHOUT_COUNTERPART, key
            continue
        named = nearest_key(key)
        expected = {*row.ours, COMPUTED.get(key)} - {None}
        assert named in expected or any(k.startswith(f"{named}.") for k in row.ours), f"{key}: {named}"


def test_every_foreign_key_stands_in_a_table() -> None:
    shown = {key for row in ROWS for key in row.theirs}
    shown |= {key.removeprefix(prefix) for key in shown for prefix in PREFIXES}
    missing = [k for k in (*FOREIGN_KEYS, *WITHOUT_COUNTERPART) if k not in shown]
    assert [k for k in missing if not any(key.startswith(f"{k}.") for key in shown)] == []


def test_every_key_of_ours_in_a_table_exists() -> None:
    known = {*leaves(), *sections()}
    assert {key for row in ROWS for key in row.ours} <= known


def test_a_key_without_counterpart_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match=r"num_iterations=2: leave it out; a batch is trained on once"):
        load_config("configs/gsm8k_smollm2_cpu.yaml", ["num_iterations=2"])
