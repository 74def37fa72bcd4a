"""The real vLLM engine against a teacher-forced Hugging Face forward, and its weight updates under faults."""

import asyncio
import os
import signal
import time

import pytest
import torch

from exchange.types import Sampling
from rollout.engines.v1_current.adapter import VllmV1Engine
from rollout.errors import EngineUnusable, UpdateFailed
from tests.integration.conftest import tiny_config
from tests.integration.publishing import PROBE, HfPolicy, largest_difference
from tests.integration.tiny_model import EOS, NUM_TOKENS

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

PROMPT = (5, 6, 7)
AGREE = 1e-4
LONG = Sampling(temperature=1.0, max_new_tokens=400, seed=11)


@pytest.fixture
def policy(engine_session):
    """The trainer's side, at the weights that the engine is brought to as well."""
    hf = HfPolicy(engine_session.model_folder)
    engine_session.forgive()
    version = engine_session.next_version()
    hf.train_a_little(seed=version)
    engine_session.run(engine_session.engine.update(hf.publish(version, engine_session.publish_folder)))
    return hf


def generate(session, sampling, prompt=PROMPT, request_id="r"):
    return session.run(session.engine.generate(request_id, prompt, sampling))


def start_long_requests(engine, n):
    return [asyncio.create_task(engine.generate(f"long{i}", PROMPT, Sampling(1.0, 400, seed=i))) for i in range(n)]


async def wait_for_tokens(engine, num_requests):
    """Until the engine has taken up `num_requests` requests."""
    while len(engine._running) < num_requests:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)


def test_logprobs_are_those_of_the_distribution_that_was_sampled_from(engine_session, policy):
    for seed in range(4):
        c = generate(engine_session, Sampling(temperature=0.7, max_new_tokens=60, seed=seed))
        assert largest_difference(c.logprobs, policy.response_logprobs(PROMPT, c, 0.7)) < AGREE
        assert largest_difference(c.logprobs, policy.response_logprobs(PROMPT, c, 1.0)) > 0.05


def test_the_end_token_is_sampled_scored_and_labelled(engine_session, policy):
    async def thirty():
        engine = engine_session.engine
        return await asyncio.gather(*(engine.generate(f"e{i}", PROMPT, Sampling(1.0, 400, seed=i)) for i in range(30)))

    ended = [c for c in engine_session.run(thirty()) if c.finish_reason == "stop"]
    assert ended, "no completion ended by itself"
    for c in ended:
        assert c.token_ids[-1] == EOS and EOS not in c.token_ids[:-1]
        assert len(c.logprobs) == len(c.versions) == len(c.token_ids)
    c = ended[0]
    assert c.logprobs[-1] == pytest.approx(policy.response_logprobs(PROMPT, c, 1.0)[-1], abs=AGREE)


def test_further_stop_tokens_end_a_completion_and_stay_in_it(engine_session, policy):
    stops = tuple(range(2, NUM_TOKENS))
    c = generate(engine_session, Sampling(1.0, 50, stop_token_ids=stops, seed=1))
    assert c.finish_reason == "stop" and len(c.token_ids) == 1 and len(c.logprobs) == 1


def test_the_length_limit_is_a_finish_reason_of_its_own(engine_session, policy):
    c = generate(engine_session, Sampling(0.7, 3, seed=5))
    assert c.finish_reason == "length" and len(c.token_ids) == 3


def test_a_prompt_without_room_for_the_completion_is_refused(engine_session, policy):
    with pytest.raises(ValueError, match="no room"):
        generate(engine_session, LONG, prompt=(5,) * 65)


def test_equal_seeds_give_equal_completions(engine_session, policy):
    a, b = (generate(engine_session, Sampling(1.0, 30, seed=9), request_id=r) for r in "ab")
    assert a.token_ids == b.token_ids
    assert generate(engine_session, Sampling(1.0, 30, seed=10)).token_ids != a.token_ids


def test_scores_are_teacher_forced_at_temperature_one(engine_session, policy):
    scores = engine_session.run(engine_session.engine.score(PROBE))
    assert largest_difference(scores, policy.score(PROBE)) < AGREE


@pytest.mark.parametrize("limits", [{"top_p": 0.8}, {"top_k": 5}, {"top_p": 0.7, "top_k": 20}])
def test_truncated_sampling_returns_the_kept_set_it_renormalized_over(engine_session, policy, limits):
    c = generate(engine_session, Sampling(0.7, 40, seed=3, **limits))
    assert c.kept_token_ids is not None and all(t in k for t, k in zip(c.token_ids, c.kept_token_ids, strict=True))
    logits = policy.logits([*PROMPT, *c.token_ids]) / 0.7
    for j, kept in enumerate(c.kept_token_ids):
        assert set(kept) == reference_kept_set(logits[len(PROMPT) - 1 + j], **limits)

    def keep(j, row):
        mask = torch.full_like(row, -torch.inf)
        mask[list(c.kept_token_ids[j])] = 0
        return row + mask

    assert largest_difference(c.logprobs, policy.response_logprobs(PROMPT, c, 0.7, keep)) < AGREE


def reference_kept_set(logits, top_p=1.0, top_k=0):
    """Top-k first, then the smallest set of the rest whose probability reaches top_p."""
    order = logits.argsort(descending=True).tolist()[: top_k or None]
    probabilities = logits.double()[order].softmax(-1)
    kept, total = set(), 0.0
    for token, p in zip(order, probabilities.tolist(), strict=True):
        if total >= top_p:
            break
        kept.add(token)
        total += p
    return kept


def test_untruncated_sampling_returns_no_kept_set(engine_session, policy):
    assert generate(engine_session, Sampling(0.7, 3, seed=3)).kept_token_ids is None


def test_a_request_lives_through_an_update_and_every_token_knows_its_weights(engine_session, policy):
    engine = engine_session.engine
    old = engine.version
    version = engine_session.next_version()
    new = HfPolicy(engine_session.model_folder)
    new.train_a_little(seed=version)
    update = new.publish(version, engine_session.publish_folder)

    async def update_in_flight():
        tasks = start_long_requests(engine, 16)
        await wait_for_tokens(engine, 16)
        report = await engine.update(update)
        return report, await asyncio.gather(*tasks)

    report, completions = engine_session.run(update_in_flight())
    assert report.version == engine.version == version
    assert report.num_tensors_checked == len(update.tensors)
    assert report.probe_mean_abs_diff < AGREE
    crossed = [c for c in completions if c.versions[0] == old and c.versions[-1] == version]
    assert crossed, "no request lived through the update"
    for c in crossed:
        first_new = c.versions.index(version)
        assert c.versions == (old,) * first_new + (version,) * (len(c.versions) - first_new)
        expected = policy.response_logprobs(PROMPT, c, 1.0)[:first_new]
        assert largest_difference(c.logprobs[:first_new], expected) < AGREE
        # From the first new token on, the old weights explain the samples no longer.
        assert largest_difference(c.logprobs[first_new:], policy.response_logprobs(PROMPT, c, 1.0)[first_new:]) > AGREE


def test_after_an_update_fresh_samples_are_those_of_the_new_weights(engine_session, policy):
    c = generate(engine_session, Sampling(0.7, 60, seed=1))
    assert set(c.versions) == {engine_session.engine.version}
    assert largest_difference(c.logprobs, policy.response_logprobs(PROMPT, c, 0.7)) < AGREE


@pytest.mark.parametrize(
    ("fault", "name", "culprit"),
    [
        ("stale_head", "", "lm_head.weight"),
        ("zero", "model.layers.1.self_attn.k_proj.weight", "layers.1.self_attn.qkv_proj.weight"),
        ("zero", "model.layers.2.input_layernorm.weight", "layers.2.input_layernorm.weight"),
        ("zero", "model.layers.0.self_attn.v_proj.bias", "layers.0.self_attn.qkv_proj.bias"),
        ("drop", "model.layers.3.mlp.up_proj.weight", "layers.3.mlp.gate_up_proj.weight"),
        ("drop", "model.norm.weight", "model.norm.weight"),
        ("drop", "model.embed_tokens.weight", "embed_tokens.weight"),
        ("overwrite", "model.embed_tokens.weight", "embed_tokens.weight"),
    ],
)
def test_wrong_weights_are_found_before_they_are_labelled(engine_session, policy, fault, name, culprit):
    engine = engine_session.engine
    old, version = engine.version, engine_session.next_version()
    policy.train_a_little(seed=version)
    update = policy.publish(version, engine_session.publish_folder)

    async def fail_in_flight():
        running = asyncio.create_task(engine.generate("inflight", PROMPT, LONG))
        await wait_for_tokens(engine, 1)
        await engine._llm.collective_rpc("inject", args=(fault, name))
        with pytest.raises(UpdateFailed) as failure:
            await engine.update(update)
        outcome = (await asyncio.gather(running, return_exceptions=True))[0]
        return failure.value, outcome, await engine._llm.get_weight_version(), await engine._llm.is_paused()

    failure, outcome, label, paused = engine_session.run(fail_in_flight())
    assert failure.phase == "verify" and culprit in failure.cause and failure.version == version
    assert label == str(old) and engine.version == old and not paused
    # Either it had ended before the update began, wholly under the old label, or it ends with the failure.
    assert isinstance(outcome, EngineUnusable) or set(outcome.versions) == {old}
    with pytest.raises(EngineUnusable, match=f"version {version}"):
        generate(engine_session, LONG)


def test_files_that_are_not_what_was_published_are_never_loaded(engine_session, policy):
    engine = engine_session.engine
    old, version = engine.version, engine_session.next_version()
    other = HfPolicy(engine_session.model_folder)
    other.train_a_little(seed=version)
    update = other.publish(version, engine_session.publish_folder)
    with open(update.buckets[0], "r+b") as file:
        file.seek(-4, 2)
        file.write(b"\x00\x00\x80\x3f")
    with pytest.raises(UpdateFailed, match=r"load.*bytes differ"):
        engine_session.run(engine.update(update))
    engine_session.forgive()
    c = generate(engine_session, Sampling(0.7, 30, seed=2))
    assert set(c.versions) == {old}
    assert largest_difference(c.logprobs, policy.response_logprobs(PROMPT, c, 0.7)) < AGREE


def test_a_probe_that_disagrees_lets_nothing_out_under_the_new_label(engine_session, policy):
    engine = engine_session.engine
    old, version = engine.version, engine_session.next_version()
    other = HfPolicy(engine_session.model_folder)
    other.train_a_little(seed=version)
    update = other.publish(version, engine_session.publish_folder)
    # The trainer's scores are of other weights than those it published.
    object.__setattr__(update, "probe_logprobs", policy.score(PROBE))

    async def fail_in_flight():
        tasks = start_long_requests(engine, 16)
        await wait_for_tokens(engine, 16)
        with pytest.raises(UpdateFailed, match=r"probe.*disagree"):
            await engine.update(update)
        return await asyncio.gather(*tasks, return_exceptions=True)

    outcomes = engine_session.run(fail_in_flight())
    assert engine.version == old
    assert any(isinstance(o, EngineUnusable) for o in outcomes)
    assert all(isinstance(o, EngineUnusable) or max(o.versions) <= old for o in outcomes)


def test_a_wait_that_takes_too_long_ends_and_is_named(engine_session, policy, monkeypatch):
    engine, old = engine_session.engine, engine_session.engine.version
    update = policy.publish(engine_session.next_version(), engine_session.publish_folder)
    monkeypatch.setattr(engine._config.rollout.weight_sync, "timeout_s", 1e-3)
    with pytest.raises(UpdateFailed, match=r"waited 0\.001 s for the engine to pause"):
        engine_session.run(engine.update(update))
    engine_session.forgive()
    c = generate(engine_session, Sampling(0.7, 30, seed=2))
    assert set(c.versions) == {old}
    assert largest_difference(c.logprobs, policy.response_logprobs(PROMPT, c, 0.7)) < AGREE


def test_an_engine_process_that_dies_in_an_update_is_noticed_at_once(engine_session, policy, tiny_model):
    """vLLM leaves the call unanswered: without our own watch it would be waited for until the limit."""
    update = policy.publish(engine_session.next_version(), engine_session.publish_folder)

    async def die_while_loading():
        engine = VllmV1Engine(tiny_config(tiny_model), worker=1, first_version=0)
        await engine.start()
        try:
            (core,) = engine._llm.engine_core.resources.engine_manager.processes
            load, started = engine._llm.update_weights, time.monotonic()

            async def kill_first(request):
                os.kill(core.pid, signal.SIGSTOP)  # else it might answer before it dies
                os.kill(core.pid, signal.SIGKILL)
                return await load(request)

            engine._llm.update_weights = kill_first
            with pytest.raises(UpdateFailed) as failure:
                await engine.update(update)
            seconds = time.monotonic() - started
            with pytest.raises(EngineUnusable):
                await engine.score(PROBE)
            return failure.value, seconds
        finally:
            await engine.close()

    failure, seconds = engine_session.run(die_while_loading())
    assert failure.phase == "load" and failure.cause == "its engine process was killed by SIGKILL"
    assert seconds < tiny_config(tiny_model).rollout.weight_sync.timeout_s / 2


def test_versions_only_rise(engine_session, policy):
    with pytest.raises(ValueError, match="is at version"):
        engine_session.run(
            engine_session.engine.update(policy.publish(engine_session.engine.version, engine_session.publish_folder))
        )
