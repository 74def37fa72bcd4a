"""A difference that grows with the position is told from one that does not."""

import asyncio
from types import SimpleNamespace

import pytest
from transformers import Qwen2Config

from configs.schema import Config
from exchange.types import Trajectory
from pipeline.doctor.limits import limits_of
from pipeline.doctor.rungs.residue import by_position, residue

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "rope_theta": 1e4}
LLAMA3 = YARN | {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
DEFAULT = {"rope_type": "default", "rope_theta": 1e4}


def trajectory(num_prompt, mask=(1, 1, 1, 1)):
    return Trajectory((3,) * num_prompt, (5, 6, 7, 1), (-1.0,) * 4, (0,) * 4, mask, 0.0, "stop")


def test_halves_are_made_by_position_in_the_sequence():
    # Positions 10..13 with |δ| 1, 2, 3, 4 and 2..5 with 0.5, of which one was not sampled: five are the earlier ones.
    both = [trajectory(10), trajectory(2, mask=(1, 0, 1, 1))]
    scores = [[-2.0, -3.0, -4.0, -5.0], [-1.5, -99.0, -0.5, -1.5]]
    assert by_position(both, scores) == (0.5, 2.5)
    assert by_position([], []) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("rope", "sizes", "told", "key"),
    [
        (YARN, (0.1, 0.1, 0.4, 0.4), "from 0.1 to 0.4: the position encoding (yarn RoPE) differs", "model.path"),
        (LLAMA3, (0.1, 0.1, 0.4, 0.4), "the position encoding (llama3 RoPE) differs", "model.path"),
        (YARN, (0.3, 0.3, 0.4, 0.4), "kernels or precision differ", "model.dtype"),
        (DEFAULT, (0.1, 0.1, 0.4, 0.4), "kernels or precision differ", "model.dtype"),
    ],
)
def test_the_cause_of_what_is_left(tmp_path, rope, sizes, told, key):
    Qwen2Config(rope_parameters=rope, max_position_embeddings=256).save_pretrained(tmp_path)
    config = Config()
    config.model.path, config.model.dtype = str(tmp_path), "float32"
    sample = SimpleNamespace(trajectories=[trajectory(2)], scores=[[-1.0 - size for size in sizes]])
    verdict = asyncio.run(residue(SimpleNamespace(config=config, sample=sample, limits=limits_of(config))))
    assert verdict.state == "failed" and told in verdict.cause and verdict.key == key
