"""Files that only their owner may read: settings and arguments may hold tokens of trackers or of model hubs."""

import os
from pathlib import Path

MODE = 0o600


def write_private(path: Path, text: str) -> None:
    """Write `text` aside and rename, readable by the owner alone from its first byte on.

    Raises:
        OSError: the folder cannot be written.
    """
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)  # one that a crash left keeps whatever mode it has
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(partial, path)
