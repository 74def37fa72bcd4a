"""The benchmarks' own parts, and the trainer's ones once through, small."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.measurement import median_ratio, seconds_by_case
from benchmarks.outcome import Outcome, Target, show
from benchmarks.peak_memory import ALLOCATOR, in_own_process
from benchmarks.training_cases import random_sequences, step_input

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20


def test_cases_take_turns_and_warmups_are_not_counted():
    calls = []
    seconds = seconds_by_case({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repeats=2, warmups=1)
    assert calls == ["a", "b"] * 3
    assert {name: len(values) for name, values in seconds.items()} == {"a": 2, "b": 2}
    with pytest.raises(ValueError, match="--repeats=0"):
        seconds_by_case({"a": int}, repeats=0)


def test_a_ratio_is_the_median_of_the_rounds_own_ratios():
    assert median_ratio([2.0, 30.0, 8.0], [1.0, 10.0, 2.0]) == 3.0  # of 2, 3 and 4; the medians would give 4


@pytest.mark.parametrize(("value", "at_least", "met"), [(0.9, True, True), (0.89, True, False), (0.91, False, False)])
def test_a_target_is_met_on_the_right_side(value, at_least, met):
    assert Target("x", value, 0.9, at_least).met is met


def test_the_outcome_is_shown_and_written(tmp_path, capsys):
    path = tmp_path / "new" / "out.json"
    show(Outcome("Title", [{"case": "one", "seconds": 1234.5}], [Target("speed", 0.5, 0.9, True)], ["a note"]), path)
    written = json.loads(path.read_text())
    assert written["rows"] == [{"case": "one", "seconds": 1234.5}] and written["targets"][0]["met"] is False
    assert {"cores", "torch", "python"} <= set(written["machine"])
    text = capsys.readouterr().out
    assert "MISSED" in text and "one" in text and "a note" in text


def test_packing_computes_no_position_that_is_not_a_token():
    data = step_input(random_sequences(64, vocabulary=64), num_minibatches=2, max_tokens=512)
    assert data.num_positions == data.num_tokens < data.num_padded_positions
    prompts = {s.group: len(s.prompt_token_ids) for m in data.minibatches for part in m for s in part}
    responses = sum(len(s.response_token_ids) for m in data.minibatches for part in m for s in part)
    parts = sum(len(m) for m in data.minibatches)
    spared = data.num_tokens - data.num_shared_positions
    least = sum(prompts.values()) + responses  # a group is divided only where one part ends and the next begins
    assert least <= data.num_shared_positions <= least + (parts - len(data.minibatches)) * max(prompts.values())
    assert spared > 0.3 * data.num_tokens
    assert len(data.minibatches) == len(data.denominators) == 2


def test_peak_memory_sees_what_was_freed_again():
    code = f"""
import torch
from benchmarks.peak_memory import measured
torch.zeros(8)
def work():
    a = torch.ones(64 * {MIB // 4}); b = a + 1; del a, b
    return torch.ones(8 * {MIB // 4})
rise = measured(work)
print(rise.peak, rise.kept, rise.passing)
"""
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | ALLOCATOR, capture_output=True, text=True
    )
    peak, kept, passing = map(int, run.stdout.split())
    assert 127 * MIB < peak < 140 * MIB and 8 * MIB <= kept < 20 * MIB and passing == peak - kept, run.stderr


def test_a_case_in_its_own_process_has_a_limit_to_its_time():
    assert in_own_process("timeit", ["-n", "1", "-r", "1", "-s", "import time", "time.sleep(60)"], limit_s=1.0) is None
    with pytest.raises(RuntimeError, match="timeit"):
        in_own_process("timeit", ["no such name"], limit_s=60.0)


@pytest.mark.parametrize("way", ["full", "chunked"])
def test_the_memory_benchmark_tells_peak_and_what_is_left_behind(way):
    vocabulary, tokens, chunk = 49_152, 96, 48
    shape = [str(n) for n in (vocabulary, tokens, chunk, 1)]
    rise = in_own_process("benchmarks.logprob_memory", ["--case", way, *shape], limit_s=100.0)
    gradient, logits = 4 * vocabulary * 576, 4 * vocabulary
    assert rise is not None and gradient <= rise.kept < gradient + 6 * MIB
    rows = {"full": 2 * tokens, "chunked": chunk}[way]  # of logits, alive at once beside the gradient
    assert rise.peak > rise.kept + (0.9 * rows * logits if way == "chunked" else 0)
    assert rise.peak < gradient + rows * logits + 12 * MIB


def test_the_memory_benchmark_measures_both_ways_alike():
    from benchmarks.logprob_memory import HIDDEN_SIZES, WAYS, work

    gradients = {way: work(way, min(HIDDEN_SIZES), 24, 7)() for way in WAYS}
    for full, chunked in zip(gradients["full"], gradients["chunked"], strict=True):
        torch.testing.assert_close(full, chunked, atol=1e-6, rtol=1e-4)


NOISY = """
import os, subprocess, sys
from benchmarks.quiet import own_stderr, own_stdout, run_quietly
def main():
    print("figures", file=own_stdout())
    print("progress", file=own_stderr())
    print("a library's line")
    subprocess.run(["sh", "-c", "echo a child; echo an error >&2"])
    {end}
run_quietly(main)
"""


@pytest.mark.parametrize(
    ("end", "code", "out", "errors"),
    [
        ("pass", 0, ["figures"], ["progress"]),
        ("sys.exit(3)", 3, ["figures", "a library's line", "a child"], ["progress", "an error"]),
        ("raise OSError(7)", 1, ["figures", "a library's line", "a child"], ["progress", "an error", "OSError: 7"]),
    ],
)
def test_what_libraries_print_shows_only_when_a_benchmark_fails(end, code, out, errors):
    run = subprocess.run([sys.executable, "-c", NOISY.format(end=end)], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == code
    assert sorted(run.stdout.splitlines()) == sorted(out)
    shown = [line for line in run.stderr.splitlines() if line in errors]
    assert sorted(shown) == sorted(errors) and (code == 1 or shown == run.stderr.splitlines())


@pytest.mark.engine
@pytest.mark.parametrize("name", ["trainer_speed", "prox_methods"])
def test_a_trainer_benchmark_runs_and_writes_its_figures(name, tmp_path):
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--repeats", "1", "--sequences", "32"]
    run = subprocess.run([*command, "--json", str(out)], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stderr == "" and run.stdout.startswith("Training step: 32 completions")  # no library's progress bars
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == {"trainer_speed": 4, "prox_methods": 10}[name] and all(row["seconds"] > 0 for row in rows)
