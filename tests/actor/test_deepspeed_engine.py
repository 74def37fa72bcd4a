import pytest

from actor.deepspeed_engine import deepspeed_config, zero_stage
from configs.actor_schema import ActorConfig


@pytest.mark.parametrize(
    ("asked", "dtype", "runs"), [(0, "float32", 0), (0, "bfloat16", 1), (2, "bfloat16", 2), (3, "float32", 3)]
)
def test_bfloat16_needs_sharded_master_weights_so_stage_0_runs_as_stage_1(asked, dtype, runs):
    actor = ActorConfig()
    actor.deepspeed.zero_stage = asked
    assert zero_stage(actor, dtype) == runs
    assert deepspeed_config(actor, dtype, 1000, 32)["zero_optimization"]["stage"] == runs
