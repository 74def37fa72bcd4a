"""Histograms over tokens, the choice of files and of completions, and tokens as text."""

import json

import pytest

from pipeline.report.samples import chosen, sample
from pipeline.report.token_histograms import Bin, TokenHistograms, shares, version_bins
from pipeline.report.token_text import token_texts
from pipeline.report.trajectories import TrajectoryPages
from pipeline.report.trajectory_files import affordable, evenly
from tests.pipeline.report.run_files import seeded_run, write_run


def row(step, versions, mask=None, **values):
    n = len(versions)
    return {
        "step": step,
        "group_id": "g0",
        "sample": 0,
        "prompt_token_ids": [1, 2],
        "response_token_ids": list(range(n)),
        "behavior_logprobs": [-0.5] * n,
        "versions": versions,
        "loss_mask": mask or [1] * n,
        "reward": 0.0,
        "finish_reason": "stop",
    } | values


def test_lags_count_from_the_version_that_consumed():
    counts = TokenHistograms()
    counts.add([row(5, [2, 2, 3, 4]), row(5, [4, 4], mask=[1, 0]), row(5, [1], mask=[0])])
    assert counts.lags == {2: 2, 1: 1, 0: 2}
    assert counts.versions == {2: 2, 3: 1, 4: 2}
    assert counts.versions_a_completion == {3: 1, 1: 1}
    assert counts.num_files == 1
    assert shares(counts.lags) == {0: 0.4, 1: 0.2, 2: 0.4}
    assert shares({}) == {}


def test_version_bins_cover_the_range_with_equal_widths():
    assert version_bins({3: 5, 4: 1, 9: 2}, 100) == [
        Bin(3, 3, 5), Bin(4, 4, 1), Bin(5, 5, 0), Bin(6, 6, 0), Bin(7, 7, 0), Bin(8, 8, 0), Bin(9, 9, 2),
    ]  # fmt: skip
    assert version_bins({3: 5, 4: 1, 9: 2}, 3) == [Bin(3, 5, 6), Bin(6, 8, 0), Bin(9, 9, 2)]
    assert version_bins({}, 3) == []


def test_files_are_chosen_evenly_and_within_the_budget(tmp_path):
    assert evenly([0, 1, 2, 3, 4, 5, 6], 3) == [0, 3, 6]
    assert evenly([0, 1], 5) == [0, 1]
    assert evenly([0, 1, 2], 1) == [2]
    files = [tmp_path / str(i) for i in range(10)]
    for file in files:
        file.write_bytes(b"x" * 100)
    assert affordable(files, 1000) == files
    assert affordable(files, 500) == [files[i] for i in (0, 2, 4, 7, 9)]
    assert affordable(files, 1) == [files[9]]
    assert affordable([], 1) == []


def test_chosen_completions_differ_in_what_they_show():
    rows = [
        row(3, [2, 2], sample=0, reward=0.0),
        row(3, [2, 2], sample=1, reward=1.0),
        row(3, [1, 2], sample=2, reward=0.5),
        row(3, [2] * 9, sample=3, reward=0.5),
        row(3, [2], sample=4, reward=0.5),
    ]
    assert [t["sample"] for t in chosen(rows, 4)] == [1, 0, 2, 3]
    assert [t["sample"] for t in chosen(rows, 9)] == [1, 0, 2, 3, 4]
    assert chosen([], 4) == []


def test_a_sample_keeps_tokens_aligned_and_survives_what_json_cannot_hold():
    shown = sample(
        row(5, [3, 3, 4], behavior_logprobs=[-0.123456, float("-inf"), 0.0], reward=float("nan")), None, max_tokens=2
    )
    assert shown["ids"] == [0, 1]
    assert shown["texts"] == ["0 ", "1 "]
    assert shown["behavior"] == [-0.1235, None]
    assert shown["lags"] == [1, 1]
    assert shown["num_tokens"] == 3
    assert shown["reward"] is None
    assert "delta" not in shown
    json.dumps(shown, allow_nan=False)


def test_the_difference_of_the_logprobs_is_not_that_of_rounded_ones():
    behavior = [-0.12345, -0.12345, 0.0, float("-inf"), -0.5]
    proximal = [-0.12345 + 3e-7, -0.12346, -7.0, -3.0, -0.25]
    shown = sample(
        row(5, [3] * 5, [1, 1, 0, 1, 1], behavior_logprobs=behavior, proximal_logprobs=proximal), None, max_tokens=4
    )
    assert shown["delta"] == [pytest.approx(3e-7, rel=1e-3), pytest.approx(-1e-5, rel=1e-3), None, None]
    json.dumps(shown, allow_nan=False)


def byte_level_tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({symbol: i for i, symbol in enumerate(alphabet)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=core)


def test_a_character_of_several_tokens_stands_at_the_last_of_them():
    tokenizer = byte_level_tokenizer()
    ids = tokenizer("a é€ b").input_ids
    assert token_texts(tokenizer, ids) == ["a", " ", "", "é", "", "", "€", " ", "b"]
    assert "".join(token_texts(tokenizer, ids)) == "a é€ b"
    assert token_texts(tokenizer, ids[:3])[-1] == "\ufffd"


def test_spaces_that_stand_only_between_tokens_are_kept():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["[UNK]", "Tom", "has", "21", "books"]
    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core)
    assert token_texts(tokenizer, tokenizer("Tom has 21 books").input_ids) == ["Tom", " has", " 21", " books"]


def test_without_a_tokenizer_the_ids_and_the_reason_are_shown(tmp_path):
    seeded_run(tmp_path / "a", 1, 4, num_logged=2, model_path=str(tmp_path / "gone"))
    from pipeline.report.run_data import load_run

    histograms, samples = TrajectoryPages(1).read(load_run(tmp_path / "a"))
    assert histograms["num_files"] == histograms["num_read"] == 2
    assert sum(lag["share"] for lag in histograms["lags"]) == pytest.approx(1.0)
    assert "is no folder" in samples["no_tokenizer"]
    assert len(samples["completions"]) == 2 * 4
    assert samples["completions"][0]["texts"][0] == f"{samples['completions'][0]['ids'][0]} "


def test_a_file_that_holds_no_trajectories_is_named(tmp_path):
    from pipeline.report.run_data import load_run

    write_run(tmp_path / "a", [{"step": 1}])
    (tmp_path / "a" / "trajectories").mkdir()
    (tmp_path / "a" / "trajectories" / "step-000001.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(ValueError, match=r"step-000001\.jsonl holds no trajectories"):
        TrajectoryPages(1).read(load_run(tmp_path / "a"))
