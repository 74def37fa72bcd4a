"""Is a data set a local file, and which data set is evaluated on."""

from dataclasses import replace

from configs.schema import Config, DatasetConfig

FILE_SUFFIXES = (".jsonl", ".json", ".parquet")
LOCAL_SPLIT = "train"
"""The only split of a local file."""


def is_local_file(path: str) -> bool:
    """By its name alone, so that a config is checked without touching the disk."""
    return path.lower().endswith(FILE_SUFFIXES)


def eval_dataset(config: Config) -> DatasetConfig | None:
    """The held-out data set; None when evaluation is switched off.

    It shares columns and prompt text with the training data; only its first `eval.num_samples` rows are read.
    """
    if config.eval.num_samples == 0:
        return None
    path = config.eval.path or config.dataset.path
    split = LOCAL_SPLIT if is_local_file(path) else config.eval.split
    return replace(config.dataset, path=path, split=split, limit=config.eval.num_samples)
