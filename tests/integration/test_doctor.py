"""The doctor against the real engine and trainer: sixteen faults, each found at its rung, and no false alarm."""

import asyncio
import json
import os
import random
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray

from configs.schema import Config
from pipeline.doctor.ladder import climb, first_cause
from pipeline.doctor.start import read_prompts, started_bench
from pipeline.records.run_folder import RunFolder
from tests.integration.chat_model import make_chat_model
from tests.integration.conftest import tiny_config
from tests.integration.doctor_faults import FaultyRolloutWorker, FaultyTrainerWorker
from tests.integration.tiny_model import word

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
TEMPERATURE = 0.7


def job(folder: Path) -> Config:
    """A tiny random model with a chat template and a beginning-of-sequence token."""
    model = make_chat_model(folder / "model")
    draw = random.Random(0)
    rows = [" ".join(word(draw.randrange(5, 128)) for _ in range(draw.randrange(5, 14))) for _ in range(24)]
    (folder / "rows.jsonl").write_text("".join(json.dumps({"question": r, "answer": "1"}) + "\n" for r in rows))
    config = tiny_config(model)
    config.dataset.path = str(folder / "rows.jsonl")
    config.scheduler.device, config.eval.num_samples = "cpu", 0
    config.rollout.sampling.temperature, config.rollout.sampling.max_new_tokens = TEMPERATURE, 64
    return config


class Patient:
    """A bench whose faults can be switched, and the loop it lives in."""

    def __init__(self, runner: asyncio.Runner, bench: Any) -> None:
        self.runner, self.bench = runner, bench
        self.healthy_prompts, self.healthy_sampling = bench.prompts, bench.sampling

    def switch(self, sampler: str = "", trainer: str = "", name: str = "") -> None:
        ray.get(self.bench.sampler._actor.switch.remote(sampler, name), timeout=60)
        ray.get(self.bench.trainer._ranks[0].switch.remote(trainer), timeout=60)

    def heal(self) -> None:
        self.switch()
        self.bench.prompts, self.bench.sampling = self.healthy_prompts, self.healthy_sampling
        self.runner.run(self.bench.synchronize())

    def climb(self) -> Any:
        return self.runner.run(climb(self.bench, print))

    def first_cause(self) -> Any:
        return first_cause(self.runner.run(climb(self.bench, print, stop_at_failure=True)))


def patient_of(config: Config, folder: Path) -> Any:
    os.environ["PYTHONPATH"] = str(ROOT)
    run = RunFolder(folder)
    run.logs.mkdir(parents=True)
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        started = started_bench(config, run, FaultyRolloutWorker, FaultyTrainerWorker)
        patient = Patient(runner, runner.run(stack.enter_async_context(started)))
        try:
            yield patient
        finally:
            runner.run(stack.aclose())


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doctor")
    yield from patient_of(job(folder), folder / "out")


@pytest.fixture
def patient(patients):
    patients.heal()
    return patients


RUNGS = {"ids": "token ids", "shift": "shift and mask", "logits": "logits processing", "update": "after an update"}
FAULTS = [
    ("raw_logprobs", "", RUNGS["logits"], "before temperature 0.7", "logprobs_mode"),
    ("", "temperature", RUNGS["logits"], "trainer scores at temperature 1", "rollout.sampling.temperature"),
    ("", "shift", RUNGS["shift"], "neighbours", "rollout.episode"),
    ("", "prompt", RUNGS["shift"], "do not depend on the prompt", "actor.attn_implementation"),
    ("retokenized", "", RUNGS["ids"], "tokenized again", "rollout.episode"),
    ("end_not_scored", "", RUNGS["shift"], "end token", "rollout.episode"),
    ("", "positions", "positions and packing", "positions do not restart", "actor.attn_implementation"),
    ("zero", "", "weights", "model.layers.1.mlp", "rollout.weight_sync.backend"),
    ("bf16_head", "", "lm_head dtype", "bfloat16", "hf_overrides"),
    ("stale", "", RUNGS["update"], "differ from what was sent", "rollout.weight_sync.backend"),
    ("stale_head", "", RUNGS["update"], "lm_head", "rollout.weight_sync.backend"),
    ("wrong_label", "", RUNGS["update"], "carry the label", "rollout.engine"),
]


@pytest.mark.parametrize(("sampler", "trainer", "rung", "cause", "key"), FAULTS)
def test_a_fault_is_found_at_its_rung(patient, sampler, trainer, rung, cause, key):
    patient.switch(sampler, trainer, "model.layers.1.mlp.down_proj.weight")
    found = patient.first_cause()
    assert found is not None and found.rung == rung
    assert cause in found.cause and found.key.endswith(key)


def test_truncation_without_renormalization_is_found(patient):
    patient.bench.sampling = replace(patient.bench.sampling, top_p=0.8)
    assert patient.first_cause() is None, "renormalized on both sides"
    patient.switch(trainer="renormalize")
    found = patient.first_cause()
    assert found.rung == RUNGS["logits"] and "renormalize" in found.cause and found.key == "rollout.sampling.top_p"


def test_a_second_beginning_of_sequence_token_is_found(patient, monkeypatch):
    def twice(texts, tokenizer):
        encoded = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        return [(tokenizer.bos_token_id, *ids) for ids in encoded]

    monkeypatch.setattr("rollout.data.dataset.encode_chats", twice)
    patient.bench.prompts = read_prompts(patient.bench.config)[1]
    found = patient.first_cause()
    assert found.rung == RUNGS["ids"] and "twice" in found.cause and found.key == "dataset.chat_template"


def test_another_chat_template_is_found(patient):
    config = replace(patient.bench.config, dataset=replace(patient.bench.config.dataset, chat_template="never"))
    patient.bench.prompts = read_prompts(config)[1]
    found = patient.first_cause()
    assert found.rung == RUNGS["ids"] and "chat template" in found.cause and found.key == "dataset.chat_template"


def test_no_false_alarm_over_seeds_lengths_and_temperatures(patient):
    """Twenty climbs of the whole ladder."""
    try:
        for run in range(20):
            temperature, length = (0.5, 0.7, 1.0, 1.3)[run % 4], (4, 16, 40, 64, 64)[run % 5]
            ray.get(patient.bench.trainer._ranks[0].set_temperature.remote(temperature), timeout=60)
            patient.bench.sampling = replace(
                patient.bench.sampling, temperature=temperature, max_new_tokens=length, seed=run
            )
            patient.bench.prompts = patient.healthy_prompts[run:] + patient.healthy_prompts[:run]
            verdicts = patient.climb()
            assert first_cause(verdicts) is None, (run, temperature, length)
            assert sum(v.state == "passed" for v in verdicts) >= 11
    finally:
        ray.get(patient.bench.trainer._ranks[0].set_temperature.remote(TEMPERATURE), timeout=60)
