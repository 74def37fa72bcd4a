"""Which data sets are one local file."""

FILE_SUFFIXES = (".jsonl", ".json", ".parquet")
LOCAL_SPLIT = "train"
"""The only split of a local file."""


def is_local_file(path: str) -> bool:
    """By its name alone, so that a config is checked without touching the disk."""
    return path.lower().endswith(FILE_SUFFIXES)
