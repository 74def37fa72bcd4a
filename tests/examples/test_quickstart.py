"""What the quickstart makes once and what it shows at the end; the training itself is tested with a real engine."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from configs.loading.loader import load_config
from examples.quickstart.quickstart import PRESET, overrides, prepare, show
from examples.quickstart.tokenizer import build_tokenizer
from examples.quickstart.warm_start import IGNORED, WarmStart, batches
from pipeline.records.summary import Summary

TINY = WarmStart(steps=2, batch_size=2, hidden_size=64, num_layers=1, warmup_steps=1)


def test_model_and_problems_are_made_once_and_again_when_the_recipe_changes(tmp_path: Path) -> None:
    folder = prepare(1, TINY, tmp_path)
    model = AutoModelForCausalLM.from_pretrained(folder / "model")
    assert model.config.tie_word_embeddings and model.dtype == torch.float32
    weights = folder / "model" / "model.safetensors"
    made = weights.stat().st_mtime_ns
    assert prepare(1, TINY, tmp_path) == folder and weights.stat().st_mtime_ns == made
    prepare(1, replace(TINY, steps=3), tmp_path)
    assert weights.stat().st_mtime_ns != made
    assert [path.name for path in tmp_path.iterdir()] == ["quickstart-seed1"]


def test_the_same_seed_warm_starts_to_the_same_weights(tmp_path: Path) -> None:
    one, two = (prepare(seed, TINY, tmp_path / name) for seed, name in ((1, "a"), (1, "b")))
    other = prepare(2, TINY, tmp_path / "c")
    one_bytes, two_bytes, other_bytes = (
        (folder / "model" / "model.safetensors").read_bytes() for folder in (one, two, other)
    )
    assert one_bytes == two_bytes != other_bytes


def test_demonstrations_are_worked_first_and_mostly_guessed_at_the_end() -> None:
    tokenizer = build_tokenizer()
    settings = replace(TINY, steps=100, batch_size=20, guess_from=0.7, guess_fraction=0.6)
    lengths = [(batch["labels"] != IGNORED).sum(dim=1) for batch in batches(tokenizer, settings, seed=1)]
    longest_guess = len(tokenizer("#### 999")["input_ids"]) + 1
    guessed = [float((step <= longest_guess).float().mean()) for step in lengths]
    assert len(guessed) == 100 and guessed[:70] == [0.0] * 70
    assert sum(guessed[70:]) / 30 == pytest.approx(0.6, abs=0.1)


def test_only_the_response_is_learned_and_it_ends_with_the_end_token() -> None:
    tokenizer = build_tokenizer()
    batch = next(batches(tokenizer, replace(TINY, batch_size=8), seed=1))
    for ids, labels in zip(batch["input_ids"].tolist(), batch["labels"].tolist(), strict=True):
        learned = [label for label in labels if label != IGNORED]
        start = labels.index(learned[0])
        assert tokenizer.decode(ids[:start]).endswith("?")
        assert ids[start : start + len(learned)] == learned
        assert learned[-1] == tokenizer.eos_token_id


def test_the_preset_is_valid_asynchronous_and_in_fp32_for_every_seed() -> None:
    for seed in (1, 2, 3):
        config = load_config(PRESET, overrides(seed, None, Path("folder"), ["train.total_steps=7"]))
        assert config.run.seed == seed and config.train.total_steps == 7
        assert config.rollout.max_head_offpolicyness >= 1
        assert config.model.dtype == "float32" and config.rollout.sampling.temperature == 1.0
        assert config.dataset.path == "folder/train.jsonl" and config.eval.path == "folder/held_out.jsonl"


def test_the_last_words_are_before_after_and_where_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    show(
        Summary(
            name="quickstart-seed1",
            num_steps=120,
            train_time_s=200.0,
            eval_before={"eval/reward": 0.25, "eval/response_tokens": 4.0},
            eval_after={"eval/reward": 0.75, "eval/response_tokens": 18.0},
            counts={},
            versions={},
            allowed_disagreements=[],
            run_dir="RUN",
            metrics="RUN/metrics.jsonl",
            checkpoint="RUN/checkpoints/120/policy",
        ),
        total_s=300.0,
    )
    out = capsys.readouterr().out
    for expected in ("25.0 %", "75.0 %", "+50.0 points", "+14.0", "RUN/metrics.jsonl", "RUN/checkpoints/120/policy"):
        assert expected in out
