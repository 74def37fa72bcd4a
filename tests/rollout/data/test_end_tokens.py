from types import SimpleNamespace

from rollout.data.tokenizer import end_token_ids


def test_every_source_counts():
    tokenizer = SimpleNamespace(eos_token_id=9)
    assert end_token_ids({"eos_token_id": [7, 5]}, {"eos_token_id": 5}, {}, tokenizer) == (5, 7, 9)
    assert end_token_ids({"eos_token_id": None}) == ()
