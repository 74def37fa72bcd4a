"""Settings of small runs that start no process, over the model and data set of the fixture `inputs`."""

from pathlib import Path

from configs.loading.loader import load_config
from configs.schema import Config
from tests.faults.run_process import overrides


def small_config(inputs: tuple[Path, Path], run_dir: Path, **settings: object) -> Config:
    """As `tests.faults.run_process.overrides` says it, loaded; double underscores in a name stand for dots."""
    model, data = inputs
    _, file, *rest = overrides(model, data, run_dir, **settings)
    return load_config(file, rest)
