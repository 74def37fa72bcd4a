"""The layout's import rules, by the syntax tree; and every config key is read somewhere."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from configs.keys import leaves, sections

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("actor", "rollout", "pipeline", "configs", "exchange")
HEAVY = ("torch", "transformers", "ray", "datasets", "vllm", "deepspeed", "numpy", "pyarrow", "peft", "math_verify")

FORBIDDEN = {
    "exchange": ("vllm", "deepspeed", "ray", "actor", "rollout", "pipeline", "examples", "tests", "scripts"),
    "actor": ("rollout", "vllm", "pipeline", "examples", "tests", "scripts"),
    "rollout": ("actor", "deepspeed", "pipeline", "examples", "tests", "scripts"),
    "pipeline": ("vllm", "deepspeed", "examples", "tests", "scripts"),
    "configs": (*HEAVY, "actor", "rollout", "pipeline", "examples", "tests", "scripts"),
}


def imported_modules(path: Path) -> set[str]:
    """Top-level names of everything a file imports, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_package_imports_nothing_that_it_must_not(package: str) -> None:
    files = list((ROOT / package).rglob("*.py"))
    assert files
    broken = {
        str(path.relative_to(ROOT)): sorted(imported_modules(path) & set(FORBIDDEN[package]))
        for path in files
        if imported_modules(path) & set(FORBIDDEN[package])
    }
    assert not broken


def modules_after(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_a_config_is_checked_without_heavy_packages() -> None:
    statement = "from configs.loading.loader import load_config; load_config('configs/gsm8k_qwen2.5_1.5b.yaml')"
    assert not modules_after(statement) & set(HEAVY)


def test_the_command_line_is_imported_without_heavy_packages() -> None:
    assert not modules_after("import pipeline.cli") & set(HEAVY)


# A key whose whole meaning is that it agrees with another one.
ONLY_CHECKED = {"rollout.vllm_config.use_v1"}
# Derives the engine's arguments; the other modules of configs only declare, check or describe keys.
READERS_IN_CONFIGS = {ROOT / "configs" / "checks" / "pinned.py"}


def readers() -> list[str]:
    """The code in which reading a key gives it an effect."""
    files = [p for package in PACKAGES for p in (ROOT / package).rglob("*.py")]
    return [p.read_text() for p in files if ROOT / "configs" not in p.parents or p in READERS_IN_CONFIGS]


def is_read(key: str, sources: list[str]) -> bool:
    """Some file that speaks of the key's section takes the field from an object or by its name."""
    section, _, name = key.rpartition(".")
    speaks = re.compile(rf"\b({section.rpartition('.')[2]}|{sections()[section].__name__})\b")
    reads = re.compile(rf"""\.{name}\b(?!\s*=[^=])|["']{name}["']""")
    return any(speaks.search(source) and reads.search(source) for source in sources)


def test_every_config_key_is_read() -> None:
    sources = readers()
    unread = [key for key in leaves() if key not in ONLY_CHECKED and not is_read(key, sources)]
    assert not unread, f"nobody reads {unread}"


def test_a_key_that_nobody_reads_is_found() -> None:
    assert not is_read("actor.kl.coef", ["kl.coef = 0.5", "x.coef"])
    assert is_read("actor.kl.coef", ["if config.kl.coef > 0: ..."])
