"""`proxrl train`: launch a run, or resume it."""

from typing import Annotated

import typer

from configs.loading.loader import load_config
from pipeline.commands.arguments import ConfigFile, Overrides
from pipeline.errors import one_sentence

MaxRestarts = Annotated[
    int, typer.Option(min=0, help="Start again from the last checkpoint when a trainer rank dies, at most so often.")
]


def train(config: ConfigFile, overrides: Overrides = None, max_restarts: MaxRestarts = 0) -> None:
    """Train: launch a run, or resume the one in its folder.

    Example: proxrl train --config configs/gsm8k_smollm2_cpu.yaml train.total_steps=3
    """
    with one_sentence():
        loaded = load_config(config, overrides or [])
        from pipeline.run.launch import launch

        launch(loaded, max_restarts)
