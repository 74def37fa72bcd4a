import torch

from actor import weight_sender


def test_tensors_outlive_their_bucket():
    def buckets():
        memory = torch.zeros(2)
        for value in (1.0, 2.0):
            memory.fill_(value)
            yield [(f"w{value:g}", memory)]

    sent = list(weight_sender.flatten(buckets()))
    assert [(name, t.tolist()) for name, t in sent] == [("w1", [1.0, 1.0]), ("w2", [2.0, 2.0])]


def test_a_rank_gathers_to_the_end_when_sending_fails(monkeypatch):
    gathered = []

    def buckets(engine, bucket_bytes):
        for i in range(3):
            gathered.append(i)
            yield [(str(i), torch.zeros(1))]

    class Failing:
        def send(self, tensors, buffer_bytes, limit_s):
            next(tensors)
            raise TimeoutError

    monkeypatch.setattr(weight_sender, "iter_full_weights", buckets)
    try:
        weight_sender.broadcast(None, Failing(), 8, 1.0)
    except TimeoutError:
        pass
    else:
        raise AssertionError("the failure was swallowed")
    assert gathered == [0, 1, 2]
