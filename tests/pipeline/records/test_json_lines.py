import subprocess
import sys

import pytest

from pipeline.records.json_lines import JsonLines, read_json_lines

SCRIPT = """
import resource, sys
from pathlib import Path
from pipeline.records.json_lines import JsonLines
lines = JsonLines(Path(sys.argv[1]))
lines.write({"step": 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (lines.num_bytes + 10,) * 2)
try:
    lines.write({"step": 2, "text": "x" * 100})
except OSError as error:
    print(error.errno, lines.num_bytes)
lines.close()
"""


def test_a_full_disk_leaves_whole_lines(tmp_path):
    path = tmp_path / "rows.jsonl"
    done = subprocess.run([sys.executable, "-c", SCRIPT, path], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["27", "12"], done.stderr  # EFBIG
    assert path.read_text() == '{"step": 1}\n'


def test_size_and_contents_across_openings(tmp_path):
    path = tmp_path / "rows.jsonl"
    with JsonLines(path) as lines:
        lines.write({"a": float("nan"), "b": "ü"})
    with JsonLines(path) as lines:
        assert lines.num_bytes == path.stat().st_size
        lines.write({"a": 1.5})
        assert lines.num_bytes == path.stat().st_size
    assert read_json_lines(path) == [{"a": None, "b": "ü"}, {"a": 1.5}]


def test_numbers_that_are_not_finite_are_null_at_any_depth():
    from pipeline.records.json_lines import finite

    value = {"a": [1.0, float("nan"), {"b": float("-inf")}], "c": ("x", 2, None)}
    assert finite(value) == {"a": [1.0, None, {"b": None}], "c": ["x", 2, None]}


def test_a_line_that_a_crash_cut_short_is_left_out_and_any_other_damage_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n{"a": ')
    assert read_json_lines(path) == [{"a": 1}, {"a": 2}]
    for damaged in (b"\xff\xfe", b"\0\0\0", b"5", b'{"a": ', b""):
        path.write_bytes(b'{"a": 1}\n' + damaged + b'\n{"a": 3}\n')
        with pytest.raises(ValueError, match=r"rows\.jsonl is damaged: line 2 is not one JSON object"):
            read_json_lines(path)
