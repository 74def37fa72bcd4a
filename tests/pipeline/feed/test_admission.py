import random

import pytest

from pipeline.feed.staleness import Admission


@pytest.mark.parametrize(
    ("eta", "version", "accepted", "running", "max_concurrent", "free"),
    [
        (0, 0, 0, 0, 100, 8),  # synchronous: exactly one batch
        (0, 0, 5, 3, 100, 0),
        (0, 1, 8, 0, 100, 8),  # the next batch only after the version was raised
        (2, 0, 0, 0, 100, 24),
        (2, 3, 24, 4, 100, 20),  # (2 + 3 + 1) · 8 − 28
        (2, 3, 24, 4, 6, 2),  # bounded by concurrency
        (1, 9, 80, 0, 100, 0),  # ten steps in all: no eleventh batch is generated
        (1, 8, 72, 0, 100, 8),
    ],
)
def test_free_counts_groups(eta, version, accepted, running, max_concurrent, free):
    admission = Admission(8, eta, max_concurrent, total_steps=10, version=version, accepted=accepted, running=running)
    assert admission.free == free


def test_no_group_is_older_than_eta_when_consumed_in_order():
    """A simulation by hand: groups start whenever allowed, the trainer takes B in the order of starting."""
    rng, eta, batch = random.Random(0), 2, 3
    admission = Admission(batch, eta, 50, total_steps=30)
    waiting: list[int] = []  # version at which each group was started
    while admission.version < 30:
        while admission.free and rng.random() < 0.8:
            admission.start()
            waiting.append(admission.version)
            admission.accept()
        if len(waiting) >= batch:
            taken, waiting = waiting[:batch], waiting[batch:]
            assert all(admission.version - started <= eta for started in taken)
            admission.version += 1


def test_dropped_and_lost_groups_free_their_places():
    admission = Admission(4, 0, 10, total_steps=5)
    for _ in range(4):
        admission.start()
    assert admission.free == 0
    admission.discard()
    assert admission.free == 1
    admission.accept()
    admission.drop()
    assert admission.free == 2
