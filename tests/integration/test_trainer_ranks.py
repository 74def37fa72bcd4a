"""Two trainer ranks over gloo against one, in every ZeRO stage; each rank is a process with its own worker."""

import math
import pickle
import socket
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.multiprocessing as mp
from safetensors.torch import load_file

from actor.metrics import merge, to_floats
from actor.packing import plan
from configs.actor_schema import ActorConfig
from tests.actor.tiny_policy import denominators, save_tiny_model, sequences, sharing_prompts, tiny_config
from tests.actor.training_steps import full_weights

pytestmark = pytest.mark.engine

PROBE = (1, 5, 9, 2, 33, 12, 7)
BUDGET = 50
STAGES = (0, 1, 2, 3)


def _config(model_path: str, num_ranks: int, zero_stage: int):
    actor = ActorConfig(
        num_workers=num_ranks,
        ppo_n_minibatches=2,
        max_tokens_per_microbatch=BUDGET,
        logprob_chunk_tokens=16,
        prox_logp_method="reuse",
        num_threads=1,
    )
    actor.optimizer.lr = 1e-3
    actor.deepspeed.zero_stage = zero_stage
    config = tiny_config(model_path, actor)
    config.rollout.weight_sync.bucket_mib = 0  # one tensor a bucket
    return config


def _train(worker, rank: int, num_ranks: int, versions: range):
    """Steps over pairs that share a prompt; one minibatch leaves a rank without sequences."""
    result = None
    for version in versions:
        batch = sharing_prompts(sequences(8, seed=version, version=version), 2)
        minibatches = [batch[:7], batch[7:]]
        shares = plan(minibatches, num_ranks, BUDGET)
        result = worker.train_step(version, shares[rank], [denominators(m) for m in minibatches])
    return result


def _train_with_nan_on_the_last_rank(worker, rank: int, num_ranks: int):
    """One minibatch in which only the last rank's data is not finite; metrics, weights before and after."""
    batch = sequences(8, seed=2, version=2)
    share = plan([batch], num_ranks, BUDGET)[rank]
    if rank == num_ranks - 1:
        share = [[[replace(s, advantages=(math.nan,) * len(s.advantages)) for s in part] for part in share[0]]]
    before = full_weights(worker._trainer)
    metrics = worker.train_step(2, share, [denominators(batch)])["metrics"]
    return metrics, before, full_weights(worker._trainer)


def _rank(rank: int, num_ranks: int, port: int, model_path: str, folder: str) -> None:
    from actor.worker import TrainerWorker

    for stage in STAGES:
        out = Path(folder) / f"ranks{num_ranks}-stage{stage}"
        (out / "weights").mkdir(parents=True, exist_ok=True)
        worker = TrainerWorker(_config(model_path, num_ranks, stage), rank, num_ranks)
        info = worker.start("127.0.0.1", port)
        assert info["rank"] == rank and info["num_threads"] == 1 and info["num_parameters"] > 0
        _train(worker, rank, num_ranks, range(2))
        worker.save_state(str(out / "state"))
        result = _train(worker, rank, num_ranks, range(2, 3))
        update = worker.publish(3, str(out / "weights"), PROBE)
        worker.save_policy(str(out / "policy"))
        worker.load_state(str(out / "state"))
        _train(worker, rank, num_ranks, range(2, 3))
        again = worker.publish(3, str(out / "state"), PROBE)
        skipped = _train_with_nan_on_the_last_rank(worker, rank, num_ranks)
        with (out / f"rank{rank}.pkl").open("wb") as file:
            pickle.dump((result, update, again["probe_logprobs"], skipped), file)
    worker.close()  # DeepSpeed joins a process group only once a process


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    model_path = save_tiny_model(folder / "model")
    for num_ranks in (1, 2):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        mp.spawn(_rank, (num_ranks, port, model_path, str(folder)), nprocs=num_ranks)
    return folder


def _load(folder: Path, num_ranks: int, stage: int):
    out = folder / f"ranks{num_ranks}-stage{stage}"
    parts = [pickle.loads((out / f"rank{rank}.pkl").read_bytes()) for rank in range(num_ranks)]
    tensors = {}
    for bucket in parts[0][1]["buckets"]:
        tensors |= load_file(bucket)
    return parts, tensors


@pytest.mark.parametrize("num_ranks", [1, 2])
@pytest.mark.parametrize("stage", STAGES)
def test_ranks_and_stages_reach_the_same_weights(results, num_ranks, stage):
    _, reference = _load(results, 1, 0)
    parts, tensors = _load(results, num_ranks, stage)
    assert set(tensors) == set(reference) and len(parts[0][1]["buckets"]) == len(tensors)
    start = load_file(results / "model" / "model.safetensors")
    moved = max(float((tensors[n] - start[n]).abs().max()) for n in tensors)
    assert moved > 1e-4
    for name, tensor in tensors.items():
        torch.testing.assert_close(tensor, reference[name], atol=1e-5, rtol=0)


@pytest.mark.parametrize("stage", STAGES)
def test_metrics_of_two_ranks_merge_to_those_of_one(results, stage):
    one, two = (to_floats(merge(part[0]["metrics"] for part in _load(results, n, stage)[0])) for n in (1, 2))
    assert set(one) == set(two)
    for name in ("actor_loss/avg", "grad_norm/avg", "importance_weight/max", "approx_kl/avg", "entropy/avg"):
        assert two[f"ppo_actor/update/{name}"] == pytest.approx(one[f"ppo_actor/update/{name}"], abs=1e-5)
    assert two["mismatch/abs_logp_diff"] == pytest.approx(one["mismatch/abs_logp_diff"], abs=1e-5)


@pytest.mark.parametrize("num_ranks", [1, 2])
@pytest.mark.parametrize("stage", STAGES)
def test_state_resumes_and_the_probe_agrees_on_every_rank(results, num_ranks, stage):
    parts, _ = _load(results, num_ranks, stage)
    for _, update, again, _ in parts:
        assert update["probe_logprobs"] == again == parts[0][1]["probe_logprobs"]
    assert all(part[1]["buckets"] == [] for part in parts[1:])  # rank 0 alone writes


def test_the_policy_folder_holds_the_published_weights(results):
    _, tensors = _load(results, 2, 3)
    saved = load_file(results / "ranks2-stage3" / "policy" / "model.safetensors")
    assert set(saved) == set(tensors) and all(torch.equal(saved[n], tensors[n]) for n in saved)


@pytest.mark.parametrize("stage", STAGES)
def test_a_nan_on_one_rank_of_two_skips_the_update_on_both(results, stage):
    parts, _ = _load(results, 2, stage)
    skipped = [part[3] for part in parts]
    metrics = to_floats(merge(metrics for metrics, _, _ in skipped))
    assert metrics["ppo_actor/update/num_skipped_updates/avg"] == 1.0
    assert metrics["ppo_actor/update/num_outlier_updates/avg"] == 0.0
    assert "ppo_actor/update/actor_loss/avg" in to_floats(skipped[0][0])  # rank 0 had sequences of its own
    weights = skipped[0][1]
    for _, before, after in skipped:
        assert all(torch.equal(before[name], weights[name]) for name in weights)
        assert all(torch.equal(after[name], weights[name]) for name in weights)
