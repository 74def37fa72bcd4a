"""The example's episode in a real run: the calculator's tokens reach the trainer outside the loss, aligned."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.quickstart.problems import write_jsonl
from examples.quickstart.warm_start import WarmStart, warm_start
from pipeline.records.json_lines import read_json_lines
from pipeline.records.run_folder import RunFolder
from rollout.data.tokenizer import load_tokenizer

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
CONFIG = "examples/tool_use/tool_use.yaml"
STEPS, GROUPS, SAMPLES = 2, 4, 4
# Enough to write the form of a calculation; the numbers are the calculator's.
SETTINGS = WarmStart(steps=60, batch_size=16, guess_from=1.0, warmup_steps=10)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("tool-use")
    warm_start(folder / "model", 1, SETTINGS)
    write_jsonl(folder / "train.jsonl", 1, held_out=False, count=100)
    write_jsonl(folder / "held_out.jsonl", 1, held_out=True, count=8)
    run = RunFolder(folder / "run")
    overrides = [
        f"run.dir={run.root}",
        f"model.path={folder / 'model'}",
        f"dataset.path={folder / 'train.jsonl'}",
        f"eval.path={folder / 'held_out.jsonl'}",
        "eval.num_samples=8",
        f"train.total_steps={STEPS}",
        f"train.batch_size={GROUPS}",
        f"rollout.sampling.n_samples={SAMPLES}",
        "consistency.every=1",
        "consistency.action=stop",
    ]
    command = [sys.executable, "-m", "pipeline.cli", "train", "--config", CONFIG, *overrides]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    return run


@pytest.fixture(scope="module")
def rows(run: RunFolder) -> list[dict[str, Any]]:
    return [row for path in sorted(run.trajectories.glob("step-*.jsonl")) for row in read_json_lines(path)]


def spans(mask: list[int]) -> list[tuple[int, int, int]]:
    """(value, start, end) of each stretch of equal values."""
    starts = [i for i, m in enumerate(mask) if i == 0 or m != mask[i - 1]]
    return [(mask[a], a, b) for a, b in zip(starts, [*starts[1:], len(mask)], strict=True)]


def test_environment_tokens_have_mask_0_and_sampled_ones_1(run: RunFolder, rows: list[dict[str, Any]]) -> None:
    from examples.tool_use.calculator import MAX_CALLS, tool_answer

    tokenizer = load_tokenizer(str(run.root.parent / "model"))
    call_end = tokenizer.convert_tokens_to_ids("=")
    assert len(rows) == STEPS * GROUPS * SAMPLES
    num_calls = 0
    for row in rows:
        tokens = row["response_token_ids"]
        turns = spans(row["loss_mask"])
        assert turns[0][0] == turns[-1][0] == 1, "the policy has the first and the last word"
        for (value, start, end), before in zip(turns[1:], turns, strict=False):
            if value == 0:
                written = tokenizer.decode(tokens[before[1] : before[2]], skip_special_tokens=True)
                assert tokens[start:end] == tokenizer(tool_answer(written))["input_ids"]
                num_calls += 1
            else:
                assert tokens[start - 1] == tokenizer.convert_tokens_to_ids("\n"), "a turn follows a whole answer"
        # `=` ends a turn, so a sampled one is followed by the calculator, or ends the last turn.
        calls = [i for i, (t, m) in enumerate(zip(tokens, row["loss_mask"], strict=True)) if m and t == call_end]
        assert {end - 1 for value, _, end in turns[:-1] if value == 1} == {i for i in calls if i != len(tokens) - 1}
        assert len(calls) <= MAX_CALLS + 1
    assert num_calls > 0


def test_versions_and_logprobs_stay_aligned(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        mask, versions, logprobs = row["loss_mask"], row["versions"], row["behavior_logprobs"]
        assert len(mask) == len(versions) == len(logprobs) == len(row["response_token_ids"])
        assert versions == sorted(versions)
        for i, m in enumerate(mask):
            if m == 0:
                assert logprobs[i] == 0.0 and versions[i] == versions[i - 1]
        assert sum(logprobs) < 0.0


def test_sampler_and_trainer_agree_over_the_sampled_tokens(run: RunFolder) -> None:
    steps = [row for row in read_json_lines(run.metrics) if row["step"] > 0]
    assert len(steps) == STEPS
    # A token of the calculator has behavior logprob 0; were one of them counted, the difference would be of order 1.
    assert all(row["mismatch/lag_0/abs_logp_diff"] <= 1e-4 for row in steps)
