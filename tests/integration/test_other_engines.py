"""The same cases on every engine of the migration study, each in its own environment, from one Ray."""

import copy
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import torch

from configs.checks.engines import ENGINES_ARE_V1
from configs.schema import Config
from exchange.types import Group, Prompt, Sampling, Trajectory
from rollout.engines.v1_current.arguments import CPU_BATCHED_TOKENS
from tests.integration.conftest import tiny_config
from tests.integration.engine_actor import Worker, ray_of_our_own
from tests.integration.publishing import PROBE, HfPolicy, largest_difference
from tests.integration.stale_cache import logprobs_across_update

pytestmark = [pytest.mark.engine, pytest.mark.other_engines, pytest.mark.timeout(900)]

PROMPT = Prompt("p", (5, 6, 7), "")
AGREE = 1e-4
LONG = Sampling(temperature=0.7, max_new_tokens=300)
NUM_LONG = 6
NUM_AT_ONCE = 128


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with ray_of_our_own():
        yield


def config_of(engine: str, model: Path) -> Config:
    config = tiny_config(model)
    config.rollout.engine = engine
    config.rollout.max_concurrent_rollouts = NUM_AT_ONCE // config.rollout.sampling.n_samples
    config.rollout.vllm_config.use_v1 = ENGINES_ARE_V1[engine]
    return config


class Stage:
    """One engine and the trainer's side of it."""

    def __init__(self, worker: Worker, policy: HfPolicy, folder: Path) -> None:
        self.worker, self.policy, self._folder = worker, policy, folder
        self.version = 0
        self.worker.call("update", policy.publish(0, folder))

    def update(self) -> tuple[Any, Any]:
        """Train a little and bring the engine there; returns the models before and after."""
        before = copy.deepcopy(self.policy.model)
        self.version += 1
        self.policy.train_a_little(seed=self.version, scale=0.02)
        report = self.worker.call("update", self.policy.publish(self.version, self._folder))
        assert report.version == self.version
        assert report.num_tensors_checked == len(dict(self.policy.model.named_parameters()))
        assert report.probe_max_abs_diff < AGREE
        return before, self.policy.model

    def generate(self, sampling: Sampling, n: int = 1, name: str = "g") -> tuple[Trajectory, ...]:
        return self.finished(self.begin(sampling, n, name))

    def begin(self, sampling: Sampling, n: int, name: str, prompt: Prompt = PROMPT) -> Any:
        return self.worker.begin("generate_group", name, prompt, 0, sampling, n, False)

    def finished(self, request: Any) -> tuple[Trajectory, ...]:
        group: Group = ray.get(request, timeout=300)
        return group.trajectories

    def update_in_flight(self, name: str) -> tuple[tuple[Trajectory, ...], Any, Any]:
        """Requests that were running when the weights changed, and the models before and after."""
        for wait_s in (0.3, 0.1, 0.6, 1.2):
            request = self.begin(LONG, NUM_LONG, f"{name}-{wait_s}")
            time.sleep(wait_s)
            before, after = self.update()
            found = self.finished(request)
            if any(len(set(t.versions)) > 1 for t in found):
                return found, before, after
        raise AssertionError("no request lived through an update")


@pytest.fixture(scope="module", params=list(ENGINES_ARE_V1))
def stage(request: pytest.FixtureRequest, cluster: None, tiny_model: Path, tmp_path_factory: Any) -> Iterator[Stage]:
    worker = Worker(config_of(request.param, tiny_model))
    info = worker.call("start")
    assert info["engine"] == request.param
    yield Stage(worker, HfPolicy(tiny_model), tmp_path_factory.mktemp("published"))
    worker.close()


def test_greedy_tokens_are_the_models(stage: Stage) -> None:
    found = stage.generate(Sampling(temperature=0.0, max_new_tokens=40))[0]
    ids = list(PROMPT.token_ids)
    for _ in found.response_token_ids:
        ids.append(int(stage.policy.logits(ids)[-1].argmax()))
    assert tuple(ids[len(PROMPT.token_ids) :]) == found.response_token_ids
    assert len(found.response_token_ids) == 40 or found.finish_reason == "stop"


def test_prompts_of_more_tokens_than_a_step_takes_are_not_split(stage: Stage) -> None:
    # On a CPU a request with a seed of its own kills the engine when its prompt is split over two steps.
    prompt = Prompt("long", tuple(range(4, 64)), "")
    found = stage.finished(stage.begin(Sampling(0.8, 2), NUM_AT_ONCE, "many", prompt))
    assert len(prompt.token_ids) * NUM_AT_ONCE > CPU_BATCHED_TOKENS
    assert len(found) == NUM_AT_ONCE and len({t.response_token_ids for t in found}) > 1


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_logprobs_are_those_of_the_distribution_that_was_sampled_from(stage: Stage, temperature: float) -> None:
    for found in stage.generate(Sampling(temperature, 60), n=4, name=f"t{temperature}"):
        wanted = stage.policy.response_logprobs(PROMPT.token_ids, completion_of(found), temperature)
        assert largest_difference(found.behavior_logprobs, wanted) < AGREE
        assert set(found.versions) == {stage.version}


def test_scores_are_teacher_forced_at_temperature_one(stage: Stage) -> None:
    assert largest_difference(stage.worker.call("score", PROBE), stage.policy.score(PROBE)) < AGREE


def test_after_an_update_fresh_samples_are_those_of_the_new_weights(stage: Stage) -> None:
    old = stage.policy.score(PROBE)
    stage.update()
    assert largest_difference(old, stage.policy.score(PROBE)) > 0.01, "the update changed nothing"
    for found in stage.generate(Sampling(0.8, 60), n=4, name="fresh"):
        wanted = stage.policy.response_logprobs(PROMPT.token_ids, completion_of(found), 0.8)
        assert largest_difference(found.behavior_logprobs, wanted) < AGREE
        assert set(found.versions) == {stage.version}


def test_tokens_know_their_weights_across_an_update_over_the_kept_cache(stage: Stage) -> None:
    found, before, after = stage.update_in_flight("flight")
    lived = [t for t in found if len(set(t.versions)) > 1]
    for t in lived:
        boundary = t.versions.index(stage.version)
        assert t.versions == (stage.version - 1,) * boundary + (stage.version,) * (len(t.versions) - boundary)
        wanted = logprobs_across_update(before, after, PROMPT.token_ids, t.response_token_ids, boundary, 0.7)
        assert largest_difference(t.behavior_logprobs, wanted) < AGREE
        if boundary > 1:  # one token off must show, or the case above proves nothing
            off = logprobs_across_update(before, after, PROMPT.token_ids, t.response_token_ids, boundary - 1, 0.7)
            assert largest_difference(t.behavior_logprobs, off) > 10 * AGREE


@pytest.mark.parametrize("pause_mode", ["abort", "none", "wait"])
def test_other_ways_to_update_0_18_1_keep_versions_right(
    cluster: None, tiny_model: Path, tmp_path: Path, pause_mode: str
) -> None:
    config = config_of("vllm-0.18.1-v1", tiny_model)
    config.rollout.weight_sync.pause_mode = pause_mode  # type: ignore[assignment]
    config.rollout.weight_sync.clear_cache = pause_mode != "none"
    worker = Worker(config)
    worker.call("start")
    stage = Stage(worker, HfPolicy(tiny_model), tmp_path)
    try:
        if pause_mode == "wait":  # nobody lives through an update
            request = stage.begin(LONG, NUM_LONG, "drained")
            time.sleep(0.3)
            stage.update()
            assert all(set(t.versions) == {0} for t in stage.finished(request))
            return
        found, before, after = stage.update_in_flight(pause_mode)
        for t in (t for t in found if len(set(t.versions)) > 1):
            boundary = t.versions.index(stage.version)
            if pause_mode == "none":
                wanted = logprobs_across_update(before, after, PROMPT.token_ids, t.response_token_ids, boundary, 0.7)
            else:  # resumed over a cache computed anew
                wanted = clean_logprobs(before, t)[:boundary] + clean_logprobs(after, t)[boundary:]
            assert largest_difference(t.behavior_logprobs, wanted) < AGREE
    finally:
        worker.close()


def completion_of(t: Trajectory) -> Any:
    from exchange.types import Completion

    return Completion(t.response_token_ids, t.behavior_logprobs, t.versions, t.finish_reason)


@torch.no_grad()
def clean_logprobs(model: Any, t: Trajectory) -> list[float]:
    """By one model over the whole sequence, at the temperature of `LONG`."""
    logits = model(torch.tensor([[*t.prompt_token_ids, *t.response_token_ids]])).logits[0].float() / LONG.temperature
    rows = logits[len(t.prompt_token_ids) - 1 : -1].log_softmax(-1)
    return [float(row[i]) for row, i in zip(rows, t.response_token_ids, strict=True)]
