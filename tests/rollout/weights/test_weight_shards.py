from types import SimpleNamespace

import torch

from rollout.weights.check import local_shard

ROWS = torch.arange(8.0).reshape(8, 1).repeat(1, 4)


def test_one_rank_holds_everything():
    assert local_shard(SimpleNamespace(), 0, ROWS, 0, 1) is ROWS


def test_a_replicated_layer_holds_everything():
    assert local_shard(SimpleNamespace(tp_size=1), 0, ROWS, 1, 2) is ROWS
    norm = torch.ones(4)
    assert local_shard(SimpleNamespace(), 0, norm, 1, 2) is norm


def test_output_rows_are_split():
    sizes = {"output_size": 16, "output_size_per_partition": 8, "input_size": 4, "input_size_per_partition": 4}
    layer = SimpleNamespace(tp_size=2, **sizes)
    assert local_shard(layer, 1, ROWS, 1, 2)[:, 0].tolist() == [4, 5, 6, 7]


def test_keys_and_values_are_shared_between_ranks_when_there_are_fewer_heads_than_ranks():
    layer = SimpleNamespace(tp_size=4, output_size=16, output_size_per_partition=4, num_kv_head_replicas=2)
    assert local_shard(layer, 0, ROWS, 3, 4)[:, 0].tolist() == [6, 7]  # queries: a quarter each
    assert local_shard(layer, 1, ROWS, 1, 4)[:, 0].tolist() == [0, 1, 2, 3]  # keys: ranks 0 and 1 hold the same half
    assert local_shard(layer, 2, ROWS, 3, 4)[:, 0].tolist() == [4, 5, 6, 7]


def test_input_columns_are_split_and_the_bias_is_not():
    sizes = {"output_size": 8, "output_size_per_partition": 8, "input_size": 4, "input_size_per_partition": 2}
    layer = SimpleNamespace(tp_size=2, **sizes)
    columns = torch.arange(4.0).repeat(8, 1)
    assert local_shard(layer, 0, columns, 1, 2)[0].tolist() == [2, 3]
    bias = torch.ones(8)
    assert local_shard(layer, 0, bias, 1, 2) is bias


def test_the_vocabulary_is_split_where_the_engine_says():
    indices = SimpleNamespace(org_vocab_start_index=5, org_vocab_end_index=8)
    layer = SimpleNamespace(tp_size=2, shard_indices=indices)
    assert local_shard(layer, 0, ROWS, 1, 2)[:, 0].tolist() == [5, 6, 7]
