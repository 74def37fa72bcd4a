"""`--config FILE key=value …`: the command line that every script of the project takes."""

from collections.abc import Sequence

from configs.errors import ConfigError
from configs.loading.loader import load_config
from configs.loading.presets import presets
from configs.schema import Config

USAGE = "--config FILE [key=value ...]"


def split_arguments(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The config file and the overrides.

    Raises:
        ConfigError: no `--config FILE`, or two of them.
    """
    files: list[str] = []
    overrides: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--config":
            files += [next(rest, "")]
        elif argument.startswith("--config="):
            files += [argument.removeprefix("--config=")]
        else:
            overrides += [argument]
    if len(files) != 1 or not files[0]:
        found = "no config file" if len(files) < 2 else f"{len(files)} config files"
        raise ConfigError(f"The arguments name {found}; write {USAGE}, for instance with {presets()[0]}.")
    return files[0], overrides


def load_arguments(arguments: Sequence[str]) -> Config:
    """The checked config that a command line describes (`sys.argv[1:]`)."""
    path, overrides = split_arguments(arguments)
    return load_config(path, overrides)
