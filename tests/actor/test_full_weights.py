"""Published weights, policy folders and the trainer's state, on one rank."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from actor.packing import plan
from configs.actor_schema import ActorConfig, LoraConfig
from tests.actor.tiny_policy import denominators, save_tiny_model, sequences, tiny_config

pytestmark = pytest.mark.usefixtures("process_group")

PROBE = (1, 5, 9, 2, 33, 12, 7)


@pytest.fixture
def make_trainer(tiny_model_path):
    def make(path=tiny_model_path, dtype="float32", zero_stage=0, change=lambda config: None, **actor):
        from actor.model import load_policy
        from actor.trainer import Trainer

        settings = ActorConfig(max_tokens_per_microbatch=60, logprob_chunk_tokens=16, **actor)
        settings.optimizer.lr = 1e-3
        settings.deepspeed.zero_stage = zero_stage
        config = tiny_config(path, settings, dtype)
        change(config)
        return Trainer(config, load_policy(config.model, config.actor), torch.device("cpu"))

    return make


def _train(trainer, versions):
    for version in versions:
        batch = sequences(8, seed=version, version=version)
        trainer.train_step(version, plan([batch], 1, 60)[0], [denominators(batch)])


def _published(trainer, directory, bucket_bytes=6000):
    from actor.publish import publish

    directory.mkdir(exist_ok=True)
    return publish(trainer, 5, str(directory), PROBE, bucket_bytes)


def _plain_probe(model):
    ids = torch.tensor([PROBE])
    with torch.no_grad():
        log_p = model(ids).logits[0].double().log_softmax(-1)
    return log_p[range(len(PROBE) - 1), PROBE[1:]].tolist()


@pytest.mark.parametrize("zero_stage", [0, 3])
@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("tied", [True, False])
def test_published_weights_rebuild_the_policy(make_trainer, tmp_path, zero_stage, rank, tied):
    path = save_tiny_model(tmp_path / "model", tied)
    trainer = make_trainer(path, zero_stage=zero_stage, lora=LoraConfig(rank=rank))
    _train(trainer, (1, 2))
    update = _published(trainer, tmp_path / "weights")
    tensors = {}
    for bucket in update["buckets"]:
        tensors |= load_file(bucket)
    assert len(update["buckets"]) > 3 and sorted(m["name"] for m in update["tensors"]) == sorted(tensors)
    for meta in update["tensors"]:
        tensor = tensors[meta["name"]]
        assert meta["sha256"] == hashlib.sha256(tensor.numpy().tobytes()).hexdigest()
        assert meta["dtype"] == "float32" and meta["shape"] == tuple(tensor.shape)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    untouched = _plain_probe(model)
    assert set(tensors) == {name for name, _ in model.named_parameters()}  # a tied head comes once
    model.load_state_dict(tensors, strict=False)
    assert update["probe_logprobs"] == pytest.approx(_plain_probe(model), abs=1e-5)
    assert update["probe_logprobs"] != pytest.approx(untouched, abs=1e-5)


def test_tensors_are_described_in_the_order_in_which_they_are_sent(make_trainer, tmp_path, monkeypatch):
    import time

    from actor import publish as module
    from actor.full_weights import iter_full_weights

    def slow_first(tensor, right=module.tensor_sha256):
        time.sleep(0.05 if tensor.ndim == 2 else 0)
        return right(tensor)

    monkeypatch.setattr(module, "tensor_sha256", slow_first)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    trainer = make_trainer(zero_stage=3)
    described = module.publish(trainer, 5, None, PROBE, 6000)
    assert described["buckets"] == []
    sent = [(n, hashlib.sha256(t.numpy().tobytes())) for b in iter_full_weights(trainer.engine, 6000) for n, t in b]
    assert [(t["name"], t["sha256"]) for t in described["tensors"]] == [(n, h.hexdigest()) for n, h in sent]


def test_buckets_keep_their_bound(make_trainer):
    from actor.full_weights import iter_full_weights

    sizes = []
    for bucket in iter_full_weights(make_trainer(zero_stage=3).engine, 5000):
        sizes.append((len(bucket), sum(t.numel() * t.element_size() for _, t in bucket)))
    assert all(size <= 5000 or count == 1 for count, size in sizes) and len(sizes) > 3


@pytest.mark.parametrize("rank", [0, 4])
def test_the_saved_policy_is_a_hugging_face_folder(make_trainer, tmp_path, rank):
    from actor.policy_files import save_policy

    path = save_tiny_model(tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (tmp_path / "model" / name).write_text("{}")
    trainer = make_trainer(path, lora=LoraConfig(rank=rank))
    _train(trainer, (1,))
    save_policy(trainer.engine, trainer.config.model, str(tmp_path / "policy"))
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "policy", dtype="auto")
    assert model.dtype == torch.float32
    assert trainer.probe(PROBE) == pytest.approx(_plain_probe(model), abs=1e-5)
    written = {f.name for f in (tmp_path / "policy").iterdir()}
    assert {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "config.json"} <= written


def test_a_head_of_its_own_is_saved_as_untied_whatever_the_model_said(make_trainer, tmp_path):
    """transformers unties a head that the weights hold beside the embedding, although config.json calls it tied."""
    from actor.policy_files import save_policy

    path = save_tiny_model(tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    tensors = load_file(weights)
    embedding = tensors["model.embed_tokens.weight"]
    save_file(tensors | {"lm_head.weight": embedding.flip(0).contiguous()}, weights, {"format": "pt"})
    config_file = tmp_path / "model" / "config.json"
    config_file.write_text(json.dumps(json.loads(config_file.read_text()) | {"tie_word_embeddings": True}))
    trainer = make_trainer(path)
    save_policy(trainer.engine, trainer.config.model, str(tmp_path / "policy"))
    assert json.loads((tmp_path / "policy" / "config.json").read_text())["tie_word_embeddings"] is False
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "policy", dtype=torch.float32)
    assert trainer.probe(PROBE) == pytest.approx(_plain_probe(model), abs=1e-5)


def test_large_policies_are_sharded_with_an_index(make_trainer, tmp_path, monkeypatch):
    from actor import policy_files

    monkeypatch.setattr(policy_files, "_SHARD_BYTES", 20_000)
    trainer = make_trainer()
    policy_files.save_policy(trainer.engine, trainer.config.model, str(tmp_path / "policy"))
    index = json.loads((tmp_path / "policy" / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 1
    assert index["metadata"]["total_size"] == 4 * sum(p.numel() for p in trainer.policy.parameters())
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "policy", dtype=torch.float32)
    assert trainer.probe(PROBE) == pytest.approx(_plain_probe(model), abs=1e-5)


@pytest.mark.parametrize(
    ("dtype", "zero_stage", "rank"),
    [("float32", 0, 0), ("float32", 2, 0), ("float32", 3, 4), ("bfloat16", 0, 0), ("bfloat16", 3, 0)],
)
def test_saved_state_gives_identical_next_steps(make_trainer, tmp_path, dtype, zero_stage, rank):
    from actor.trainer_state import load_state, save_state

    def make():
        return make_trainer(dtype=dtype, zero_stage=zero_stage, lora=LoraConfig(rank=rank), change=_decaying)

    straight = make()
    _train(straight, (0, 1))
    save_state(straight, str(tmp_path))
    torch.rand(3)  # moves the generator away from what was saved
    _train(straight, (2, 3))
    after = torch.rand(3)
    resumed = make()
    load_state(resumed, str(tmp_path))
    torch.rand(3)
    _train(resumed, (2, 3))
    assert torch.equal(after, torch.rand(3))
    for (name, a), (_, b) in zip(_parameters(straight), _parameters(resumed), strict=True):
        assert torch.equal(a, b), name
    assert straight.probe(PROBE) == resumed.probe(PROBE)
    assert not list(tmp_path.glob("*.pt")) and not list(tmp_path.glob("*.pkl"))


def _decaying(config):
    config.actor.optimizer.schedule = "cosine"
    config.actor.optimizer.weight_decay = 0.1


def _parameters(trainer):
    from actor.deepspeed_engine import master_parameters
    from actor.full_weights import iter_full_weights

    yield from ((n, t.clone()) for b in iter_full_weights(trainer.engine, 1 << 30) for n, t in b)
    yield from ((f"master {i}", t.clone()) for i, t in enumerate(master_parameters(trainer.engine)))


def test_a_reference_that_was_reset_is_part_of_the_state(make_trainer, tmp_path):
    from actor.trainer_state import load_state, save_state

    def kl(config):
        config.actor.kl.coef, config.actor.kl.reset_ref_every = 0.1, 2

    trainer = make_trainer(change=kl)
    _train(trainer, (0, 1, 2))
    save_state(trainer, str(tmp_path))
    resumed = make_trainer(change=kl)
    load_state(resumed, str(tmp_path))
    batch = sequences(3)
    assert resumed.score([batch], of_reference=True) == trainer.score([batch], of_reference=True)
    assert resumed.score([batch], of_reference=True) != resumed.score([batch])


def test_a_state_saved_before_the_first_step_starts_the_optimizer_afresh(make_trainer, tmp_path):
    from actor.trainer_state import load_state, save_state

    fresh, trained = make_trainer(), make_trainer()
    save_state(fresh, str(tmp_path))
    _train(trained, (5,))
    load_state(trained, str(tmp_path))
    for trainer in (fresh, trained):
        _train(trainer, (0, 1))
    assert fresh.probe(PROBE) == trained.probe(PROBE)


def test_a_state_of_another_setting_is_refused(make_trainer, tmp_path):
    from actor.trainer_state import load_state, save_state

    save_state(make_trainer(), str(tmp_path))
    with pytest.raises(ValueError, match=r"actor.deepspeed.zero_stage=0, this run has 2"):
        load_state(make_trainer(zero_stage=2), str(tmp_path))
