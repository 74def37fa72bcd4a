"""The command line as a user meets it: real processes, exit codes, what stands on stdout and stderr."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from configs.loading.loader import load_config
from pipeline.cli import app
from pipeline.commands.arguments import complete_override

ROOT = Path(__file__).resolve().parents[2]
CPU_PRESET = "configs/gsm8k_smollm2_cpu.yaml"
GPU_PRESET = "examples/experimental/prox_approx/gsm8k_grpo_prox_approx.yaml"
LINES_OF_A_SCREEN = 24

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **env}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, env=environment, timeout=60
    )


def proxrl(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run("-m", "pipeline.cli", *arguments, **env)


def test_a_bad_config_ends_with_code_2_and_one_sentence() -> None:
    ended = proxrl("train", "--config", CPU_PRESET, "actor.prox_logp_methd=reuse")
    assert ended.returncode == 2
    assert ended.stderr == (
        "error: Unknown key actor.prox_logp_methd=reuse: the nearest key is actor.prox_logp_method "
        "(from the command line).\n"
    )


@no_gpu
def test_the_gpu_job_says_what_is_missing_and_what_runs_here() -> None:
    ended = run("examples/math/gsm8k_rl.py", "--config", GPU_PRESET, "scheduler.type=local")
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert "needs 8 GPUs and this machine has none; run --config" in ended.stderr
    assert CPU_PRESET in ended.stderr


def test_a_missing_model_says_how_to_get_it() -> None:
    ended = run("examples/math/gsm8k_rl.py", "--config", CPU_PRESET, "model.path=.nowhere/SmolLM2-135M-Instruct")
    assert ended.returncode == 2
    assert "make smollm2" in ended.stderr and len(ended.stderr.splitlines()) == 1


def test_the_script_without_a_config_says_its_usage() -> None:
    ended = run("examples/math/gsm8k_rl.py", "actor.eps_clip=0.1")
    assert ended.returncode == 2
    assert "write --config FILE [key=value ...]" in ended.stderr


def test_config_prints_yaml_that_loads_back_with_the_origin_of_each_value(tmp_path: Path) -> None:
    overrides = ["run.seed=7", "rollout.vllm_config.vllm_kwargs.max-num-seqs=4", "dataset.system_prompt=Sum: it up"]
    ended = proxrl("config", "--config", CPU_PRESET, *overrides)
    assert ended.returncode == 0 and ended.stderr == ""
    printed = tmp_path / "printed.yaml"
    printed.write_text(ended.stdout)
    assert load_config(printed) == load_config(ROOT / CPU_PRESET, overrides)
    lines = {line.split(":")[0].strip(): line for line in ended.stdout.splitlines()}
    assert lines["seed"].endswith("# the command line")
    assert lines["max_num_seqs"].endswith("# the command line")
    assert f"# {CPU_PRESET}:" in lines["prox_logp_method"]
    assert lines["prox_version_clock"].endswith("# default")


def test_every_key_is_printed_once() -> None:
    ended = proxrl("config", "--config", CPU_PRESET)
    sections = yaml.safe_load(ended.stdout)
    assert set(sections) == {
        "run",
        "scheduler",
        "model",
        "dataset",
        "reward",
        "rollout",
        "actor",
        "train",
        "eval",
        "checkpoint",
        "consistency",
        "trackers",
    }


def all_commands() -> list[list[str]]:
    """Every command of the tree, the groups themselves among them."""
    found: list[list[str]] = []
    open_nodes = [([], get_command(app))]
    while open_nodes:
        path, node = open_nodes.pop()
        found.append(path)
        open_nodes += [([*path, name], child) for name, child in getattr(node, "commands", {}).items()]
    return found


@pytest.mark.parametrize("command", all_commands(), ids=" ".join)
def test_help_fits_a_screen_and_has_an_example(command: list[str]) -> None:
    shown = CliRunner(env={"COLUMNS": "80", "TERM": "dumb"}).invoke(app, [*command, "--help"])
    assert shown.exit_code == 0
    assert "Example: proxrl" in shown.output
    assert len(shown.output.strip().splitlines()) <= LINES_OF_A_SCREEN


def test_shell_completion_is_offered() -> None:
    ended = proxrl("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "complete" in ended.stdout


def test_completion_offers_keys_and_choices() -> None:
    assert complete_override("actor.prox_l") == ["actor.prox_logp_method="]
    assert complete_override("actor.prox_logp_method=l") == [
        "actor.prox_logp_method=loglinear",
        "actor.prox_logp_method=linear",
    ]
    assert complete_override("actor.use_decoupled_loss=") == [
        "actor.use_decoupled_loss=true",
        "actor.use_decoupled_loss=false",
    ]
    assert complete_override("zzz") == [] and complete_override("zzz=1") == []
