"""`proxrl config`: the resolved config, and where each value came from."""

import json
from collections.abc import Iterator

from rich.text import Text

from configs.keys import leaves, value_of
from configs.loading.loader import LoadedConfig, load_with_origins
from configs.loading.yaml_file import DEFAULT
from pipeline.commands.arguments import ConfigFile, Overrides
from pipeline.errors import one_sentence
from pipeline.fitting_table import plain_console

COMMENT_COLUMN = 64


def config(config: ConfigFile, overrides: Overrides = None) -> None:
    """Print the resolved config as YAML, with where each value came from.

    Example: proxrl config --config configs/gsm8k_smollm2_cpu.yaml actor.prox_logp_method=loglinear
    """
    with one_sentence():
        loaded = load_with_origins(config, overrides or [])
    console = plain_console()
    for line, origin in resolved_lines(loaded):
        text = Text(line)
        if origin:
            text.append(" " * max(1, COMMENT_COLUMN - len(line)))
            text.append(f"# {origin}", style="dim" if origin == DEFAULT else "cyan")
        console.print(text)


def resolved_lines(loaded: LoadedConfig) -> Iterator[tuple[str, str]]:
    """Lines of YAML with the origin of the value on each; section lines have none."""
    open_sections: list[str] = []
    for key, leaf in leaves().items():
        *parents, name = key.split(".")
        shared = next((i for i, (a, b) in enumerate(zip(open_sections, parents, strict=False)) if a != b), None)
        first_new = min(len(open_sections), len(parents)) if shared is None else shared
        for depth in range(first_new, len(parents)):
            yield f"{'  ' * depth}{parents[depth]}:", ""
        open_sections = parents
        indent = "  " * len(parents)
        value = value_of(loaded.config, key)
        if leaf.is_mapping and value:
            yield f"{indent}{name}:", ""
            for entry, inner in value.items():
                yield f"{indent}  {entry}: {_yaml(inner)}", loaded.origin(f"{key}.{entry}")
        else:
            yield f"{indent}{name}: {_yaml(value)}", loaded.origin(key)


def _yaml(value: object) -> str:
    """A value in YAML's flow style on one line, which JSON is."""
    if isinstance(value, str) and value.replace("_", "").replace("-", "").isalpha():
        return value
    return json.dumps(value, ensure_ascii=False)
