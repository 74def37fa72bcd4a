"""From groups to shares of ranks: minibatches by whole groups, denominators before any filter."""

import asyncio

from actor.batch import TrainSequence
from configs.actor_schema import ActorConfig
from pipeline.batch.batching import build_batch, count, split_by_group
from pipeline.batch.kl_rewards import reference_logprobs
from tests.pipeline.groups import group


def sequence(group_index: int, mask: tuple[int, ...]) -> TrainSequence:
    n = len(mask)
    return TrainSequence((1,), tuple(range(n)), mask, (0.0,) * n, (0,) * n, (1.0,) * n, group_index)


def test_a_group_is_never_divided_between_minibatches():
    sequences = [sequence(g, (1,)) for g in range(4) for _ in range(3)]
    parts = split_by_group(sequences, num_groups=4, n=2)
    assert [[s.group for s in p] for p in parts] == [[0] * 3 + [1] * 3, [2] * 3 + [3] * 3]


def test_denominators_count_what_enters_the_loss():
    counted = count([sequence(0, (1, 1, 0)), sequence(0, (0, 0)), sequence(1, (1,))])
    assert (counted.num_tokens, counted.num_sequences) == (3.0, 2.0)
    empty = count([sequence(0, (0, 0))])
    assert (empty.num_tokens, empty.num_sequences) == (1.0, 1.0)


def test_every_sequence_reaches_exactly_one_rank():
    config = ActorConfig(num_workers=2, ppo_n_minibatches=2)
    groups = [group(f"g{i}", (0, 0), (0, 0, 0), rewards=(0.0, 1.0)) for i in range(4)]
    batch = build_batch(groups, config, max_new_tokens=8)
    seen = sorted(
        (i, s.group, len(s.response_token_ids))
        for rank in batch.shares
        for i, minibatch in enumerate(rank)
        for part in minibatch
        for s in part
    )
    assert seen == sorted((g // 2, g, n) for g in range(4) for n in (2, 3))
    assert [d.num_tokens for d in batch.denominators] == [10.0, 10.0]
    assert batch.num_tokens == 4 * (2 + 2 + 2 + 3)


class RecordingTrainer:
    """Scores each token by its own id, so that the test sees which score went where."""

    async def score_reference(self, shares):
        return [
            [
                [float(t) + 100.0 * len(s.response_token_ids) for t in s.response_token_ids]
                for part in share
                for s in part
            ]
            for share in shares
        ]


def test_reference_scores_come_back_in_the_groups_order():
    config = ActorConfig(num_workers=2, max_tokens_per_microbatch=5)
    groups = [group("g0", (0,), (0, 0, 0)), group("g1", (0, 0))]
    scores = asyncio.run(reference_logprobs(groups, RecordingTrainer(), config))
    assert scores == [[[103.0], [303.0, 304.0, 305.0]], [[203.0, 204.0]]]
