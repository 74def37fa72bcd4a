"""Write docs/config.md from the schema: every key, its type, default and doc.

python scripts/generate_config_docs.py
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from configs.checks.pinned import AGREEMENT, PINNED_ENGINE_ARGS  # noqa: E402
from configs.checks.ranges import ANY, RANGES  # noqa: E402
from configs.errors import shown  # noqa: E402
from configs.foreign_keys import FOREIGN_KEYS  # noqa: E402
from configs.keys import Leaf, leaves  # noqa: E402
from configs.loading.assign import expected  # noqa: E402

PAGE = ROOT / "docs" / "config.md"
HEAD = """\
# Configuration

<!-- Written by scripts/generate_config_docs.py from the schema in configs/; edit that instead. -->

A job is one YAML file, with `key=value` arguments over it:

```
proxrl train  --config configs/gsm8k_smollm2_cpu.yaml actor.prox_logp_method=loglinear
proxrl config --config configs/gsm8k_smollm2_cpu.yaml     # the resolved config, and where each value came from
```

`_base_: other.yaml` (or a list of files) at the top of a file puts it on top of others; the paths are relative to the
file that names them, and a later base lies over an earlier one. Relative paths in `model.path`, `dataset.path`,
`eval.path` and `run.dir` are relative to the working directory, and `~` is the home folder. `${run.name}` refers to
another key and `${oc.env:NAME}` to an environment variable.

An unknown key, a wrong type, an undeclared choice, or settings that cannot work together end the command with exit
code 2 and one sentence that names the key, its value, where it was set and the remedy, before any process starts.
"""


def range_of(leaf: Leaf) -> str:
    """What the key takes, in words, with the range of numbers."""
    allowed = RANGES.get(leaf.key, ANY)
    words = expected(leaf)
    return words if leaf.choices or allowed == ANY else words.replace("number", f"number {allowed}", 1)


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def section_tables() -> list[str]:
    """One table a section, in the order of the schema."""
    lines: list[str] = []
    current = None
    for key, leaf in leaves().items():
        section = key.rpartition(".")[0]
        if section != current:
            current = section
            lines += ["", f"## `{section}`", "", "| key | takes | default | meaning |", "|---|---|---|---|"]
        default = "must be set" if leaf.mandatory else f"`{shown(leaf.default)}`"
        lines.append(f"| `{key}` | {cell(range_of(leaf))} | {default} | {cell(leaf.doc)} |")
    return lines


def pinned_table() -> list[str]:
    """The engine arguments that are pinned or guarded, with the reason."""
    lines = [
        "",
        "## Engine arguments",
        "",
        "`rollout.vllm_config.vllm_kwargs` takes any argument of the engine, with dashes or underscores. These are "
        "pinned, or refused unless named in `rollout.allow_disagreement`:",
        "",
        "| argument | pinned to | another value |",
        "|---|---|---|",
    ]
    for name, rule in AGREEMENT.items():
        pinned = f"`{shown(PINNED_ENGINE_ARGS[name])}`" if name in PINNED_ENGINE_ARGS else ""
        lines.append(f"| `{name}` | {pinned} | {cell(rule.why)} |")
    return lines


def foreign_table() -> list[str]:
    """Names of other systems and ours."""
    lines = ["", "## Keys of other systems", "", "| theirs | ours |", "|---|---|"]
    return lines + [f"| `{theirs}` | `{ours}` |" for theirs, ours in FOREIGN_KEYS.items()]


def page() -> str:
    return HEAD + "\n".join([*section_tables(), *pinned_table(), *foreign_table()]) + "\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
