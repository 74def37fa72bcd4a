"""The smallest config that passes every check, as overrides."""

GOOD = ("model.path=some/model", "train.total_steps=10", "train.batch_size=8")
