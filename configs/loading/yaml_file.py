"""`_base_: other.yaml`: a file on top of others, each relative to the file that names it.

One value that somebody set, and where.

A YAML file as a list of settings, each with the line it stands on.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from configs.errors import ConfigError
from configs.keys import leaves, sections
from configs.loading.presets import presets

COMMAND_LINE = "the command line"
DEFAULT = "default"


@dataclass(frozen=True)
class Setting:
    """`key` is dotted; `origin` is `FILE:LINE` or COMMAND_LINE."""

    key: str
    value: Any
    origin: str


BASE_KEY = "_base_"


class YamlLoader(yaml.SafeLoader):
    """Safe YAML in which 1e-6 is a number and a date stays text."""

    def construct(self, node: yaml.Node) -> Any:
        return self.construct_object(node, deep=True)


YamlLoader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
YamlLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def read_text(path: Path) -> str:
    """The text of a config file.

    Raises:
        ConfigError: it does not exist (the presets are listed), is a folder, or cannot be read as text.
    """
    if path.is_dir():
        inside = path / "config.yaml"
        remedy = f"name {inside}" if inside.exists() else "name a .yaml file"
        raise ConfigError(f"Config {path} is a folder; {remedy}.")
    if not path.exists():
        raise ConfigError(f"Config {path} does not exist; the presets are {', '.join(presets())}.")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"Config {path} is not UTF-8 text; name a YAML file.") from None
    except OSError as error:
        raise ConfigError(f"Config {path} cannot be read ({error.strerror}); check its permissions.") from None


def parse(text: str, where: str) -> Any:
    """The YAML node tree of `text` (None when empty).

    Raises:
        ConfigError: malformed YAML, with the line.
    """
    try:
        return yaml.compose(text, Loader=YamlLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        problem = error.problem or error.context
        raise ConfigError(f"{where}{line} is not valid YAML ({problem}); fix that line.") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} is not valid YAML ({error}); fix it.") from None


def read_settings(path: Path) -> tuple[list[Setting], list[Setting]]:
    """The settings of one file in its order, and its `_base_` entries (file names as written)."""
    reader = _Reader(str(path))
    root = parse(read_text(path), str(path))
    if root is None:
        return [], []
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{path} holds no mapping of keys to values; begin with a section such as `actor:`.")
    reader.walk(root, "")
    return reader.settings, reader.bases


class _Reader:
    def __init__(self, where: str) -> None:
        self.where = where
        self.settings: list[Setting] = []
        self.bases: list[Setting] = []

    def walk(self, node: yaml.MappingNode, prefix: str) -> None:
        constructor = YamlLoader("")
        self._refuse_duplicates(node, prefix)
        constructor.flatten_mapping(node)  # `<<: *anchor`
        for key_node, value_node in node.value:
            name = str(constructor.construct(key_node))
            origin = f"{self.where}:{key_node.start_mark.line + 1}"
            if name == BASE_KEY and not prefix:
                self._add_bases(self._construct(constructor, value_node), origin)
                continue
            self._add(f"{prefix}{name}", value_node, origin, constructor)

    def _add(self, key: str, node: yaml.Node, origin: str, constructor: YamlLoader) -> None:
        leaf = leaves().get(key)
        holds_keys = key in sections() or (leaf is not None and leaf.is_mapping)
        if holds_keys and isinstance(node, yaml.MappingNode):
            self.walk(node, f"{key}.")
            return
        value = self._construct(constructor, node)
        if holds_keys and value is None:
            return  # a section whose keys are all commented out
        self.settings.append(Setting(key, value, origin))

    def _construct(self, constructor: YamlLoader, node: yaml.Node) -> Any:
        try:
            return constructor.construct(node)
        except yaml.YAMLError as error:
            line = node.start_mark.line + 1
            problem = getattr(error, "problem", None) or str(error)
            raise ConfigError(f"{self.where}:{line} is not valid YAML ({problem}); fix that line.") from None

    def _add_bases(self, value: Any, origin: str) -> None:
        names = value if isinstance(value, list) else [value]
        if not names or not all(isinstance(n, str) and n for n in names):
            raise ConfigError(f"{BASE_KEY} names no file; write `{BASE_KEY}: other.yaml` or a list (from {origin}).")
        self.bases += [Setting(BASE_KEY, n, origin) for n in names]

    def _refuse_duplicates(self, node: yaml.MappingNode, prefix: str) -> None:
        seen: dict[str, int] = {}
        for key_node, _ in node.value:
            name, line = str(key_node.value), key_node.start_mark.line + 1
            if name in seen and name != "<<":
                raise ConfigError(
                    f"{prefix}{name} is given twice, in {self.where}:{seen[name]} and in line {line}; keep one.",
                    f"{prefix}{name}",
                )
            seen[name] = line


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
