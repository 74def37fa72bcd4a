"""The trajectories of a step as they are written: what the trainer knows of each stands in its own row."""

import asyncio
from dataclasses import replace

import torch

from actor.proximal_record import proximal_record
from configs.actor_schema import ActorConfig
from exchange.types import Group
from pipeline.batch.batching import build_batch
from pipeline.records.json_lines import read_json_lines
from pipeline.records.trajectories import read_groups, write_trajectories
from pipeline.workers.trainer_group import TrainerGroup
from tests.pipeline.groups import trajectory
from tests.pipeline.stand_in_actors import Method

NUM_RANKS = 2


def numbered_groups():
    """Four groups of three; token j of sample s of group g is 100·g + 10·s + j. The reward of (1, 1) failed."""
    groups = []
    for g in range(4):
        samples = []
        for s in range(3):
            t = trajectory((3,) * (2 + (g + s) % 4), reward=float(s))
            tokens = tuple(100 * g + 10 * s + j for j in range(len(t.versions)))
            samples.append(replace(t, response_token_ids=tokens, reward_failed=(g, s) == (1, 1)))
        groups.append(Group(f"g{g}", f"p{g}", 0, 0, tuple(samples)))
    return groups


class Rank:
    """Its logprob of a token is −(token id)/1000, in whatever order the tokens come."""

    def __init__(self):
        self.train_step = Method(self._train_step)

    def _train_step(self, version, share, denominators):
        def measured(part):
            return torch.tensor([-t / 1000 for s in part for t in s.response_token_ids])

        record = proximal_record(share, [[measured(part) for part in parts] for parts in share])
        return {"metrics": {}, "timings": {}, "proximal_logprobs": record}


def test_every_row_gets_its_own_logprobs_whatever_rank_and_micro_batch_computed_them(tmp_path):
    groups = numbered_groups()
    actor = ActorConfig(num_workers=NUM_RANKS, ppo_n_minibatches=2, max_tokens_per_microbatch=12)
    batch = build_batch(groups, actor, max_new_tokens=8)

    async def body():
        group = TrainerGroup(lambda rank, _: Rank(), NUM_RANKS, 5.0, 5.0, loopback=True)
        return await group.step(3, batch.shares, batch.denominators)

    result = asyncio.run(body())
    path = write_trajectories(tmp_path, 4, groups, result.proximal_logprobs)
    rows = read_json_lines(path)
    assert len(rows) == 12
    for row in rows:
        if (row["group_id"], row["sample"]) == ("g1", 1):
            assert "proximal_logprobs" not in row, "what was not trained on has none"
        else:
            assert row["proximal_logprobs"] == [round(-t / 1000, 7) for t in row["response_token_ids"]]
    assert read_groups(path) == groups


def test_without_them_the_rows_have_no_such_field(tmp_path):
    rows = read_json_lines(write_trajectories(tmp_path, 4, numbered_groups()))
    assert all("proximal_logprobs" not in row for row in rows)
