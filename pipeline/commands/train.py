"""`proxrl train`: launch a run, or go on with it."""

from configs.loader import load_config
from pipeline.commands.arguments import ConfigFile, Overrides
from pipeline.user_errors import one_sentence


def train(config: ConfigFile, overrides: Overrides = None) -> None:
    """Train: launch a run, or go on with the one in its folder.

    Example: proxrl train --config configs/gsm8k_smollm2_cpu.yaml train.total_steps=3
    """
    with one_sentence():
        loaded = load_config(config, overrides or [])
        from pipeline.launch import launch

        launch(loaded)
