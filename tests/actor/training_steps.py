"""Steps of a trainer of one rank on made-up data, the same for the same numbers."""

from dataclasses import replace

from actor.full_weights import iter_full_weights
from actor.metrics import to_floats
from actor.packing import plan
from tests.actor.tiny_policy import denominators, sequences

BUDGET = 60  # tokens of a micro-batch


def train_steps(trainer, num_minibatches=1, num_steps=1, first_version=3, num_sequences=12, change=lambda s: s):
    """Returns the last step's metrics; `change` alters every sequence."""
    for version in range(first_version, first_version + num_steps):
        batch = [change(s) for s in sequences(num_sequences, seed=version, version=version)]
        size = num_sequences // num_minibatches
        minibatches = [batch[i : i + size] for i in range(0, num_sequences, size)]
        share = plan(minibatches, 1, trainer.actor.max_tokens_per_microbatch)[0]
        result = trainer.train_step(version, share, [denominators(m) for m in minibatches])
    return to_floats(result["metrics"])


def scaled(factor):
    """A change that makes every advantage `factor` times as large."""
    return lambda s: replace(s, advantages=tuple(factor * a for a in s.advantages))


def full_weights(trainer):
    return {name: t.clone() for bucket in iter_full_weights(trainer.engine, 1 << 30) for name, t in bucket}


def largest_difference(a, b):
    return max(float((a[n] - b[n]).abs().max()) for n in a)
