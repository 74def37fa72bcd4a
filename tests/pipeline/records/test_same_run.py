"""A run goes on under the settings that decide its steps, or not at all."""

import json
import re

import pytest

from configs.schema import Config
from pipeline.records.run_folder import RunFolder
from pipeline.records.run_state import RunState
from pipeline.records.same_run import check_same_run, fingerprint

OTHER = {
    "model.path": None,  # another folder, which a test makes
    "model.dtype": "float32",
    "model.architecture": None,  # what that folder's config.json says
    "dataset.path": "other.jsonl",
    "dataset.split": "test",
    "run.seed": 2,
    "train.batch_size": 8,
    "rollout.sampling.n_samples": 2,
    "actor.num_workers": 3,
    "actor.deepspeed.zero_stage": 1,
    "actor.lora.rank": 16,
    "actor.lora.alpha": 64.0,
    "actor.lora.target_modules": ["q_proj"],
}
"""Every setting that a resumed run may not change, and a value that differs from the run's."""


def write_model(folder, num_layers=2):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"num_hidden_layers": num_layers, "use_cache": True}))
    return str(folder)


@pytest.fixture
def config(tmp_path):
    config = Config()
    config.model.path = write_model(tmp_path / "model")
    config.train.batch_size = 4
    return config


def state_of(config):
    """The run's state after its JSON was written and read."""
    state = RunState(1, {}, 0, [], [], 0, 0, {}, 0.0, fingerprint=fingerprint(config))
    return RunState.from_json(json.loads(json.dumps(state.to_json())))


def change(config, key, value):
    *parents, name = key.split(".")
    section = config
    for parent in parents:
        section = getattr(section, parent)
    assert getattr(section, name) != value
    setattr(section, name, value)


def refusal(config, state, tmp_path):
    with pytest.raises(ValueError) as error:
        check_same_run(RunFolder(tmp_path / "run"), state, config)
    return str(error.value)


def test_the_same_settings_go_on(config, tmp_path):
    state = state_of(config)
    config.train.total_steps, config.rollout.num_workers = 99, 3
    check_same_run(RunFolder(tmp_path / "run"), state, config)


@pytest.mark.parametrize("key", [key for key, value in OTHER.items() if value is not None])
def test_a_setting_that_may_not_change_is_named(config, tmp_path, key):
    state, before = state_of(config), fingerprint(config)[key]
    change(config, key, OTHER[key])
    assert refusal(config, state, tmp_path) == (
        f"{key}={OTHER[key]!r} differs from {before!r} of the run in {tmp_path}/run; "
        "give it the old value, or choose another run.dir to start a new run"
    )


def test_another_model_is_named(config, tmp_path):
    state, before = state_of(config), config.model.path
    config.model.path = write_model(tmp_path / "other")
    assert f"model.path='{tmp_path}/other' differs from '{before}'" in refusal(config, state, tmp_path)


def test_a_model_of_another_shape_in_the_same_folder_is_named(config, tmp_path):
    state = state_of(config)
    write_model(tmp_path / "model", num_layers=3)
    told = r"model\.architecture='\w+' differs from '\w+' of the run in .*; restore the model's config\.json, or choose"
    assert re.match(told, refusal(config, state, tmp_path))


def test_every_setting_of_the_fingerprint_is_tested(config):
    assert set(fingerprint(config)) == set(OTHER)


def test_a_run_of_a_version_that_recorded_less_goes_on(config, tmp_path):
    state = state_of(config)
    del state.fingerprint["actor.lora.rank"]
    state.fingerprint["no.longer.known"] = 1
    config.actor.lora.rank = 16
    check_same_run(RunFolder(tmp_path / "run"), state, config)
