"""A study that is started again with other settings does not show old runs as new ones."""

import json

import pytest

from configs.errors import ConfigError
from configs.loading.loader import load_config, save_config
from pipeline.jobs.queue import Job
from pipeline.jobs.settings import check_settings
from pipeline.records.run_folder import RunFolder

BASE = "examples/quickstart/quickstart.yaml"


def job(root, *overrides):
    return Job("a", 1, RunFolder(root / "a"), BASE, ("train.total_steps=3", *overrides))


@pytest.fixture
def finished(tmp_path):
    """A run of three steps that has ended."""
    begun = job(tmp_path)
    begun.folder.root.mkdir()
    save_config(load_config(BASE, begun.settings), begun.folder.config)
    begun.folder.summary.write_text(json.dumps({"num_steps": 3}))
    return tmp_path


def test_the_same_settings_and_a_folder_without_a_run_pass(finished):
    same, new = job(finished), Job("b", 1, RunFolder(finished / "b"), BASE, ("actor.eps_clip=0.3",))
    check_settings([same, new])
    assert same.finished and not new.finished


def test_more_steps_go_on_where_it_ended_and_fewer_are_done(finished):
    more, fewer = job(finished, "train.total_steps=5"), job(finished, "train.total_steps=2")
    check_settings([more, fewer])
    assert more.state() == "waiting" and fewer.finished


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("actor.eps_clip=0.3", r"a, seed 1: actor\.eps_clip=0\.3, but the run in .*/a began with 0\.2; give it"),
        ("rollout.sampling.top_k=5", r"rollout\.sampling\.top_k=5, but the run in"),
        (
            "rollout.vllm_config.vllm_kwargs.max-num-seqs=7",
            r"vllm_kwargs=\{max_num_seqs: 7\}, but the run in .* began with \{\}",
        ),
    ],
)
def test_another_setting_is_refused(finished, override, words):
    with pytest.raises(ConfigError, match=words):
        check_settings([job(finished, override)])


def test_what_changes_no_step_may_change(finished):
    check_settings([job(finished, "checkpoint.every=7", "rollout.startup_timeout_s=9", "run.name=b")])


def test_a_study_may_be_moved(finished, tmp_path_factory):
    moved = finished.rename(tmp_path_factory.mktemp("elsewhere") / "study")
    again = job(moved)
    check_settings([again])
    assert again.finished


def test_a_run_that_failed_before_its_first_step_protects_nothing(finished):
    (finished / "a" / "summary.json").unlink()
    check_settings([job(finished, "actor.eps_clip=0.3")])
    (finished / "a" / "metrics.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(ConfigError):
        check_settings([job(finished, "actor.eps_clip=0.3")])


def test_text_that_looks_like_an_interpolation_is_compared_as_text(finished):
    suffix = r"dataset.prompt_suffix='\${x}'"
    begun = job(finished, suffix)
    save_config(load_config(BASE, begun.settings), begun.folder.config)
    check_settings([begun])


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_damaged_summary_is_no_finished_run(finished, content):
    (finished / "a" / "summary.json").write_text(content)
    again = job(finished)
    check_settings([again])
    assert again.state() == "waiting"
