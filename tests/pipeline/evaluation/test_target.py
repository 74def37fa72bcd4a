"""What `proxrl eval` evaluates: a run's newest whole checkpoint, one checkpoint, or a model."""

import json

import pytest
import yaml

from pipeline.evaluation.target import resolve_target
from pipeline.records.checkpoints import CheckpointStore

OVERRIDES = ["eval.num_samples=5"]


@pytest.fixture
def run(tmp_path):
    root = tmp_path / "my-run"
    config = {
        "model": {"path": "somewhere/else", "dtype": "float32"},
        "rollout": {"sampling": {"temperature": 0.7}},
        "train": {"total_steps": 4, "batch_size": 2},
    }
    store = CheckpointStore(root / "checkpoints", keep=2)
    (root / "checkpoints").mkdir(parents=True)
    (root / "config.yaml").write_text(yaml.safe_dump(config))
    for step in (2, 4):
        partial = store.begin(step)
        (partial / "policy" / "config.json").write_text(json.dumps({"step": step}))
        (partial / "trainer" / "state.json").write_text("{}")
        store.finish(partial, step, {})
    return root


def test_a_run_is_its_newest_whole_checkpoint(run):
    found = resolve_target(str(run), None, OVERRIDES)
    assert found.name == "my-run-step-000004"
    assert found.config.model.path == str(run / "checkpoints/step-000004/policy")
    assert found.config.rollout.sampling.temperature == 0.7 and found.config.eval.num_samples == 5


def test_a_damaged_checkpoint_is_passed_over_and_said(run, capsys):
    (run / "checkpoints/step-000004/policy/config.json").write_text("{}")
    assert resolve_target(str(run), None, OVERRIDES).name == "my-run-step-000002"
    assert "step-000004 is damaged" in capsys.readouterr().out


def test_one_checkpoint_is_asked_under_its_runs_config(run):
    found = resolve_target(str(run / "checkpoints/step-000002"), None, OVERRIDES)
    assert found.name == "my-run-step-000002" and found.config.rollout.sampling.temperature == 0.7


def test_a_damaged_checkpoint_that_was_named_is_refused(run):
    (run / "checkpoints/step-000002/policy/config.json").unlink()
    with pytest.raises(ValueError, match=r"step-000002 is damaged .*; name another checkpoint"):
        resolve_target(str(run / "checkpoints/step-000002"), None, OVERRIDES)


def test_a_run_without_a_checkpoint(run):
    for step in (2, 4):
        (run / f"checkpoints/step-00000{step}/manifest.json").unlink()
    with pytest.raises(ValueError, match="holds no whole checkpoint yet"):
        resolve_target(str(run), None, OVERRIDES)


def test_a_model_is_asked_all_of_gsm8k_unless_a_config_says_otherwise(tmp_path, run):
    found = resolve_target("Qwen/Qwen2.5-0.5B", None, [])
    assert (found.name, found.config.model.path) == ("Qwen_Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B")
    assert (found.config.eval_dataset.path, found.config.eval_dataset.split) == ("openai/gsm8k", "test")
    assert found.config.eval.num_samples == 1319
    found = resolve_target("Qwen/Qwen2.5-0.5B", run / "config.yaml", [])
    assert found.config.rollout.sampling.temperature == 0.7 and found.config.eval.num_samples == 256


def test_a_folder_that_is_not_there_is_no_name_on_the_hub(run):
    with pytest.raises(ValueError, match="nope does not exist; name a run's folder, a checkpoint's, or a model"):
        resolve_target(str(run.parent / "nope"), None, [])
