"""One process group of one rank for all trainer tests of this process."""

import socket

import pytest
import torch

from tests.actor.tiny_policy import save_tiny_model


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
