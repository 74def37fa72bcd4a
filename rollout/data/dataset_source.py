"""Where a data set's rows come from: a local file, a folder, or the hub."""

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from configs.dataset_files import FILE_SUFFIXES, LOCAL_SPLIT, is_local_file
from configs.errors import ConfigError, refused
from configs.schema import DatasetConfig
from rollout.data.hub import use_cache_if_unreachable
from rollout.data.json_rows import Row, read_json, read_jsonl

DEFAULT_NAME = DatasetConfig().name  # belongs to the default hub data set, so it is no choice of the user's


@dataclass(frozen=True)
class DatasetKeys:
    """The config keys that name the data set, so that messages say the one the user wrote."""

    path: str = "dataset.path"
    split: str = "dataset.split"


def read_rows(config: DatasetConfig, keys: DatasetKeys) -> list[Row]:
    """The data set's first `limit` rows, in its own order.

    Raises:
        ConfigError: when there is no such data set, it cannot be read, or it has no rows.
    """
    try:
        rows = list(islice(_open(config, keys), config.limit))
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        raise _failed(config.path, keys, str(error)) from error
    if not rows:
        raise refused(keys.path, config.path, "holds no rows", "name a data set with at least one row")
    return rows


def _failed(path: str, keys: DatasetKeys, reason: str) -> ConfigError:
    return ConfigError(f"{keys.path}={path}: {reason.strip().removesuffix('.')}.", keys.path)


def _open(config: DatasetConfig, keys: DatasetKeys) -> Iterator[Row]:
    path = Path(config.path).expanduser()
    if path.is_dir():
        return _open_folder(path, config, keys)
    if path.is_file():
        _check_file_settings(path, config, keys)
        return _open_file(path)
    if is_local_file(config.path) or config.path.startswith(("/", ".", "~")) or config.path.count("/") > 1:
        raise refused(
            keys.path, config.path, f"does not exist (looked in {path.absolute().parent})", "name an existing file"
        )
    return _open_hub(config.path, config, keys)


def _check_file_settings(path: Path, config: DatasetConfig, keys: DatasetKeys) -> None:
    if not is_local_file(path.name):
        raise refused(
            keys.path, config.path, "is not a file of a supported kind", f"use one of {', '.join(FILE_SUFFIXES)}"
        )
    if config.name not in (None, DEFAULT_NAME):
        raise refused("dataset.name", config.name, "has no meaning for a local file", "remove it")
    if (shard := _SHARD.fullmatch(path.stem)) and int(shard["count"]) > 1:
        raise refused(
            keys.path,
            config.path,
            f"is one of the {int(shard['count'])} files of a split",
            f"name their folder, {path.parent}, to read the split whole, or rename the file to use it alone",
        )
    # A held-out file is usually called by its split's name; any other split of a file would be the training rows.
    if config.split not in (LOCAL_SPLIT, path.stem):
        raise refused(
            keys.split,
            config.split,
            f"is not a split of the local file {config.path}, which has only '{LOCAL_SPLIT}'",
            f"name the file of that split in {keys.path}, or set {keys.split}={LOCAL_SPLIT}",
        )


_SHARD = re.compile(r"(?P<split>.+)-(?P<index>\d+)-of-(?P<count>\d+)")


def _check_whole(files: Sequence[Path], config: DatasetConfig, keys: DatasetKeys) -> None:
    """All files of a split that says of how many it consists."""
    shards = [shard for file in files if (shard := _SHARD.fullmatch(file.stem))]
    counts = sorted({int(shard["count"]) for shard in shards})
    if len(counts) > 1:
        raise refused(
            keys.path,
            config.path,
            f"holds files of two versions of the split '{config.split}' (in {counts[0]} and in {counts[1]} files)",
            "remove those of one version",
        )
    if shards and (missing := set(range(counts[0])) - {int(shard["index"]) for shard in shards}):
        raise refused(
            keys.path,
            config.path,
            f"holds {counts[0] - len(missing)} of the {counts[0]} files of the split '{config.split}'",
            f"add number {min(missing)} and any other missing one",
        )


def _open_file(path: Path) -> Iterator[Row]:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _read_parquet(path)
    return read_json(path) if suffix == ".json" else read_jsonl(path)


def _read_parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        batches = pq.ParquetFile(path).iter_batches()
        rows = (row for batch in batches for row in batch.to_pylist())
        for number, row in enumerate(rows):
            yield Row(f"row {number}", row)
    except pa.ArrowException as error:
        raise ValueError(f"is no readable Parquet file ({str(error).splitlines()[0]}); write it again") from error


def _open_folder(folder: Path, config: DatasetConfig, keys: DatasetKeys) -> Iterator[Row]:
    files = _files_of_split(folder, config)
    if files:
        _check_whole(files, config, keys)
        return (row for file in files for row in _in_file(file, len(files) > 1))
    if (folder / "dataset_dict.json").exists() or (folder / "state.json").exists():
        return _open_saved(folder, config, keys)
    if not any(folder.iterdir()):
        raise refused(keys.path, config.path, "is an empty folder", f"put {config.split}.jsonl into it")
    return _open_hub(str(folder), config, keys)


def _files_of_split(folder: Path, config: DatasetConfig) -> list[Path]:
    """`SPLIT.jsonl`, `SPLIT-00000-of-00002.parquet`, …, directly or in `data/`, of `NAME/` before the folder's own."""
    parents = [folder / config.name] if config.name else []
    for parent in [*parents, folder]:
        for place in (parent, parent / "data"):
            for suffix in FILE_SUFFIXES:
                whole = place / f"{config.split}{suffix}"
                parts = [whole] if whole.is_file() else sorted(place.glob(f"{config.split}-*{suffix}"))
                if parts:
                    return parts
    return []


def _in_file(file: Path, several: bool) -> Iterator[Row]:
    try:
        for row in _open_file(file):
            yield Row(f"{file.name} {row.where}", row.columns) if several else row
    except ValueError as error:
        raise ValueError(f"{file.name}: {error}") from error


def _open_saved(folder: Path, config: DatasetConfig, keys: DatasetKeys) -> Iterator[Row]:
    from datasets import DatasetDict, load_from_disk

    saved = load_from_disk(str(folder))
    if isinstance(saved, DatasetDict):
        if config.split not in saved:
            raise refused(keys.split, config.split, f"is not a split of {folder}", f"choose one of {', '.join(saved)}")
        saved = saved[config.split]
    elif config.split not in (names := _names_of_saved(saved, folder)):
        raise refused(
            keys.split,
            config.split,
            f"is not a split of {folder}, which holds one data set called '{names[0]}'",
            f"name the folder of that split in {keys.path}, or set {keys.split}={names[0]}",
        )
    return _numbered(saved)


def _names_of_saved(saved: Any, folder: Path) -> list[str]:
    """What the split of a folder with a single data set may be called: its own name, its folder's, or a file's."""
    # A part of a split, `train[:10%]`, is still of that split.
    own = LOCAL_SPLIT if saved.split is None else str(saved.split).partition("[")[0]
    return [own, folder.name]


def _open_hub(path: str, config: DatasetConfig, keys: DatasetKeys) -> Iterator[Row]:
    if not os.path.isdir(path):
        use_cache_if_unreachable()
    from datasets import load_dataset
    from datasets.exceptions import DatasetsError

    name = None if os.path.isdir(path) and config.name == DEFAULT_NAME else config.name
    try:
        return _numbered(load_dataset(path, name, split=config.split, cache_dir=writable_cache()))
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if os.path.isdir(path) or "plit" in reason or "onfig" in reason:
            remedy = f"check {keys.split} and dataset.name, or name a file in {keys.path}"
        else:
            remedy = f"check the name and the network, or name a local {', '.join(FILE_SUFFIXES)} file in {keys.path}"
        raise _failed(path, keys, f"could not be read ({reason.removesuffix('.')}); {remedy}") from error


def _numbered(dataset: Any) -> Iterator[Row]:
    return (Row(f"row {number}", dict(row)) for number, row in enumerate(dataset))


def writable_cache() -> str | None:
    """Cache folder for `datasets`: None for its own where that can be written, else one under the temporary folder."""
    from datasets.config import HF_DATASETS_CACHE

    place = Path(HF_DATASETS_CACHE)
    while not place.exists():
        place = place.parent
    if os.access(place, os.W_OK):
        return None
    return os.path.join(tempfile.gettempdir(), f"proxrl-datasets-{os.getuid()}")
