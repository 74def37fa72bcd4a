"""Whether a documented command would be accepted: its options exist, its files, keys and values too. Nothing runs."""

import re
import subprocess
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from configs.loading.arguments import split_arguments
from configs.loading.loader import load_config
from pipeline.ablation.spec import load_spec as load_ablation
from pipeline.cli import app
from pipeline.parity.spec import load_spec as load_study
from tests.docs.page_commands import PROXRL, ROOT, Command

APP = typer.main.get_command(app)
A_JOB = "configs/gsm8k_smollm2_cpu.yaml"
STANDS_FOR_ANY = ("key=value", "FILE", "A.yaml", "B.yaml")


def check(command: Command) -> None:
    """Raises whatever the command itself would raise, or AssertionError."""
    words = command.words
    program = "proxrl" if words[0] in PROXRL else Path(words[0]).name
    if command.span and program == "proxrl" and _names_only(words[1:]):
        return
    try:
        CHECKS[program](words[1:])
    except Exception as error:
        if type(error).__name__ != "MissingParameter" or "…" not in command.line:  # the dots stand for it
            raise


def path_of(words: Sequence[str]) -> tuple[str, ...]:
    """`engines create` of `engines create vllm-0.8.5 --cpu`."""
    node: Any = APP
    path: list[str] = []
    for word in words:
        children = getattr(node, "commands", None)
        if not children:
            break
        assert word in children, f"proxrl has no command {' '.join([*path, word])!r}"
        node = children[word]
        path.append(word)
    return tuple(path)


def parsed(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The command's path and its parameters, as the command line itself reads them.

    Raises:
        UsageError: an option or a command that does not exist, a value of another type, a missing argument.
    """
    node, context, path, rest = APP, None, "proxrl", list(words)
    while True:
        context = node.make_context(path, list(rest), parent=context, **_groups_stop(node))
        if not hasattr(node, "commands"):
            return path, context.params
        name, node, rest = node.resolve_command(context, [*context._protected_args, *context.args])
        path = f"{path} {name}"


def _groups_stop(node: Any) -> dict[str, Any]:
    return {"allow_interspersed_args": False} if hasattr(node, "commands") else {}


def _names_only(words: Sequence[str]) -> bool:
    return len(path_of(words)) == len(words)


def _proxrl(words: Sequence[str]) -> None:
    path_of(words)
    path, params = parsed(words)
    overrides = [o for o in params.get("overrides") or [] if o not in STANDS_FOR_ANY]
    files = [f for f in (params.get("config"), *(params.get("compare") or ())) if f is not None]
    files = [f for f in files if str(f) not in STANDS_FOR_ANY]
    for file in files:
        assert (ROOT / file).is_file(), f"{file} does not exist"
    if path == "proxrl ablate" and files:
        seeds = [int(s) for s in params["seeds"].split(",")] if params["seeds"] else None
        spec = load_ablation(ROOT / files[0], params["grid"] or [], seeds, overrides)
        for variant in spec.variants:
            load_config(spec.config, [*spec.overrides, *variant.overrides])
    elif path == "proxrl parity" and files:
        assert load_study(Path(files[0]), overrides).of_role("final")
    else:
        for file in files or [A_JOB]:
            load_config(file, overrides)


def _python(words: Sequence[str]) -> None:
    module = words[0] == "-m"
    rest = list(words[2 if module else 1 :])
    file = ROOT / (f"{words[1].replace('.', '/')}.py" if module else words[0])
    assert file.is_file(), f"{file} does not exist"
    sources = _sources(file)
    if "load_arguments" in file.read_text():
        config, overrides = split_arguments(rest)
        load_config(config, overrides)
        return
    for word in rest:
        if word.startswith("--"):
            assert f'"{word.split("=")[0]}"' in sources, f"{file.name} has no option {word}"


def _sources(file: Path) -> str:
    """The script's source and that of the modules of its own folder that it imports."""
    text = file.read_text()
    beside = re.findall(rf"from {file.parent.relative_to(ROOT).as_posix().replace('/', '.')}\.(\w+) import", text)
    return text + "".join((file.parent / f"{name}.py").read_text() for name in beside)


def _make(words: Sequence[str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for word in words:
        name, equals, _ = word.partition("=")
        known = rf"^{name} *\?=" if equals else rf"^{name}:"
        assert re.search(known, makefile, re.MULTILINE), f"the Makefile has no {word}"
    done = subprocess.run(["make", "--dry-run", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _pip(words: Sequence[str]) -> None:
    assert words[0] in ("install", "uninstall"), words
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for wanted in re.findall(r"\.\[([\w,]+)\]", " ".join(words)):
        assert set(wanted.split(",")) <= set(extras), f"pyproject.toml has no extra {wanted}"


def _docker(words: Sequence[str]) -> None:
    stages = re.findall(r"^FROM \S+ AS (\w+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    if words[0] == "build":
        assert words[words.index("--target") + 1] in stages, words
    else:
        assert words[0] == "run"
        image = next(i for i, w in enumerate(words) if w.startswith("proxrl:"))
        assert words[image].removeprefix("proxrl:") in stages, words
        _proxrl(words[image + 1 :])


def _ray(words: Sequence[str]) -> None:
    from ray.scripts.scripts import cli

    assert words[0] in cli.commands, words
    cli.commands[words[0]].make_context(f"ray {words[0]}", list(words[1:]))


CHECKS: dict[str, Callable[[Sequence[str]], None]] = {
    "proxrl": _proxrl,
    "python": _python,
    "make": _make,
    "pip": _pip,
    "docker": _docker,
    "ray": _ray,
    "python3.11": lambda words: None,  # makes an environment
    "git": lambda words: None,  # the address of the repository is the reader's
    "cd": lambda words: None,
}
