"""One process group of one rank for all trainer tests of this process."""

import socket

import pytest
import torch

from configs.actor_schema import ActorConfig
from tests.actor.tiny_policy import save_tiny_model, tiny_config
from tests.actor.training_steps import BUDGET


@pytest.fixture(scope="session")
def process_group():
    from actor.process_group import join, leave

    torch.set_num_threads(1)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    join(0, 1, "127.0.0.1", port)
    yield
    leave()


@pytest.fixture(scope="session")
def tiny_model_path(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny-model"))


@pytest.fixture
def make_trainer(tiny_model_path):
    """A trainer of one rank; `change` edits the config, other keywords are settings of `actor`."""

    def make(budget=BUDGET, change=lambda config: None, **actor):
        from actor.model import load_policy
        from actor.trainer import Trainer

        settings = ActorConfig(max_tokens_per_microbatch=budget, logprob_chunk_tokens=16, **actor)
        settings.optimizer.lr = 1e-3
        config = tiny_config(tiny_model_path, settings)
        change(config)
        return Trainer(config, load_policy(config.model, config.actor), torch.device("cpu"))

    return make
