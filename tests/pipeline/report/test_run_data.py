import pytest

from pipeline.report.run_data import is_run, load_run
from pipeline.report.run_selection import run_folders, select_runs
from tests.pipeline.report.run_files import write_run


def test_reads_config_rows_and_summary(tmp_path):
    rows = [{"step": 1, "rl/reward": 0.5}, {"step": 2, "rl/reward": None}]
    write_run(tmp_path / "a", rows, {"actor": {"eps_clip": 0.2}}, {"num_steps": 2})
    run = load_run(tmp_path / "a")
    assert run.name == "a"
    assert run.rows == rows
    assert run.num_steps == 2
    assert run.summary == {"num_steps": 2}
    assert run.setting("actor.eps_clip") == 0.2
    assert run.setting("actor.missing") is None
    assert run.setting("actor.eps_clip.deeper", "default") == "default"


def test_text_that_looks_like_an_interpolation_is_shown_as_it_was_meant(tmp_path):
    write_run(tmp_path / "a", [{"step": 1}], {"dataset": {"prompt_suffix": r"\${x}"}})
    assert load_run(tmp_path / "a").setting("dataset.prompt_suffix") == "${x}"


def test_last_line_cut_short_by_a_crash_is_left_out(tmp_path):
    write_run(tmp_path / "a", [{"step": 1}])
    with (tmp_path / "a" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "rl/rew')
    assert load_run(tmp_path / "a").rows == [{"step": 1}]


@pytest.mark.parametrize(
    ("missing", "words"),
    [("config.yaml", "no config.yaml;"), ("metrics.jsonl", "no metrics.jsonl;")],
)
def test_a_folder_that_is_no_run_says_what_is_missing(tmp_path, missing, words):
    write_run(tmp_path / "a", [{"step": 1}])
    (tmp_path / "a" / missing).unlink()
    assert not is_run(tmp_path / "a")
    with pytest.raises(ValueError, match=words):
        load_run(tmp_path / "a")


def test_no_folder_no_step_and_damaged_files_are_one_sentence_each(tmp_path):
    with pytest.raises(ValueError, match="is no folder"):
        load_run(tmp_path / "nowhere")
    write_run(tmp_path / "empty", [])
    with pytest.raises(ValueError, match="no step is finished"):
        load_run(tmp_path / "empty")
    write_run(tmp_path / "bad", [{"step": 1}])
    (tmp_path / "bad" / "config.yaml").write_text("run: [")
    with pytest.raises(ValueError, match=r"config\.yaml cannot be read"):
        load_run(tmp_path / "bad")
    write_run(tmp_path / "half", [{"step": 1}])
    (tmp_path / "half" / "summary.json").write_text("{")
    with pytest.raises(ValueError, match=r"summary\.json is not whole"):
        load_run(tmp_path / "half")


def test_a_folder_above_runs_stands_for_them(tmp_path):
    for name in ("loglinear/seed-1", "loglinear/seed-2", "recompute/seed-1"):
        write_run(tmp_path / "study" / name, [{"step": 1}])
    (tmp_path / "study" / "logs").mkdir()
    found = [str(p.relative_to(tmp_path / "study")) for p in run_folders(tmp_path / "study")]
    assert found == ["loglinear/seed-1", "loglinear/seed-2", "recompute/seed-1"]


def test_equal_names_are_told_apart_and_a_run_named_twice_counts_once(tmp_path):
    for folder in ("x/seed-1", "y/seed-1"):
        write_run(tmp_path / folder, [{"step": 1}], {"run": {"name": "gsm8k"}})
    write_run(tmp_path / "z", [{"step": 1}])
    runs = select_runs([tmp_path / "x", tmp_path / "y", tmp_path / "x" / "seed-1", tmp_path / "z"])
    assert [r.name for r in runs] == ["gsm8k (x/seed-1)", "gsm8k (y/seed-1)", "z"]
