"""`_base_: other.yaml`: a file on top of others, each relative to the file that names it."""

import os
from pathlib import Path

from configs.errors import ConfigError
from configs.setting import Setting
from configs.yaml_file import BASE_KEY, read_settings


def compose(path: Path, above: tuple[Path, ...] = ()) -> list[Setting]:
    """All settings of a file, those of its bases first (later bases over earlier ones).

    Raises:
        ConfigError: a base that does not exist, or files that name each other in a circle.
    """
    own, bases = read_settings(path)
    here = path.resolve()
    settings: list[Setting] = []
    for base in bases:
        target = _base_path(path, base)
        if target.resolve() in (*above, here):
            raise ConfigError(f"{BASE_KEY}={base.value} leads back to itself; take it out (from {base.origin}).")
        settings += compose(target, (*above, here))
    return settings + own


def _base_path(path: Path, base: Setting) -> Path:
    target = Path(os.path.normpath(path.parent / Path(base.value).expanduser()))
    if not target.is_file():
        raise ConfigError(
            f"{BASE_KEY}={base.value} does not exist; "
            f"the path is relative to {path.parent or '.'} (from {base.origin})."
        )
    return target
