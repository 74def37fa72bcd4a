"""Suggestions for mistyped names."""

import pytest

from configs.foreign_keys import FOREIGN_KEYS
from configs.keys import leaves, sections
from configs.nearest import nearest, nearest_key


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("actor.prox_logp_methd", "actor.prox_logp_method"),
        ("actor.prox-logp-method", "actor.prox_logp_method"),
        ("vllm_config.vllm_kwargs", "rollout.vllm_config.vllm_kwargs"),
        ("lr", "actor.optimizer.lr"),
        ("actor.lr", "actor.optimizer.lr"),
        ("rollout.n_sample", "rollout.sampling.n_samples"),
        ("Train.Batch_Size", "train.batch_size"),
        ("actr.eps_clip", "actor.eps_clip"),
        ("beta", "actor.kl.coef"),
        ("data.train_batch_size", "train.batch_size"),
        ("qqqqqqq", None),
    ],
)
def test_nearest_key(given: str, meant: str | None) -> None:
    assert nearest_key(given) == meant


def test_a_beginning_is_taken_before_a_similar_name() -> None:
    assert nearest("flash", ["auto", "slash", "flash_attention_2"]) == "flash_attention_2"
    assert nearest("xyz", ["auto"]) is None


def test_the_keys_of_other_systems_lead_to_keys_that_exist() -> None:
    assert set(FOREIGN_KEYS.values()) <= {*leaves(), *sections()}
    assert not set(FOREIGN_KEYS) & set(leaves())
