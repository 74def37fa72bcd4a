"""The shell commands of the pages, of the examples' READMEs and of the commands' own help."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *(ROOT / "examples").rglob("README.md")])
PROGRAMS = ("proxrl", "make", "python", "python3.11", "git", "cd", "docker", ".venv/bin/pip", ".venv/bin/python")
PROXRL = ("proxrl", ".venv/bin/proxrl")
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE)
SOURCES = sorted(p for top in ("configs", "examples") for end in ("*.yaml", "*.py") for p in (ROOT / top).rglob(end))
HEAD_LINE = re.compile(r"^(?:#  +|    )((?:proxrl|make|python(?= -m| \S+/)) \S.*)$", re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
LINES_AROUND = 6  # of a block, in which a note about GPUs counts as its own


@dataclass(frozen=True)
class Command:
    """A command line as it is written; `around` is the text near it. A `span` stands within a sentence."""

    page: str
    line: str
    around: str
    span: bool

    @property
    def words(self) -> list[str]:
        """Without a comment, and without the dots that stand for what may follow."""
        words = shlex.split(self.line, comments=True)
        return [w.rstrip("…") or w for w in words if w not in ("…", "...")]

    def __str__(self) -> str:
        return f"{self.page}: {self.line}"


def commands_of(page: Path) -> list[Command]:
    """Every command of a page: of its blocks of shell or of no language, and those within sentences."""
    text, name = page.read_text(), str(page.relative_to(ROOT))
    return [*_block_commands(text, name), *_span_commands(FENCE.sub("", text), name)]


def head_commands(source: Path) -> list[Command]:
    """The commands, a line each, in the comment at the head of a config or the docstring of an example."""
    text = source.read_text()
    is_yaml = source.suffix == ".yaml"
    head = re.match(r"(?:#.*\n)*", text) if is_yaml else re.match(r'""".*?"""', text, re.DOTALL)
    # [--option VALUE] may be given; as good as given.
    lines = re.sub(r"[\[\]]", " ", "\n".join(HEAD_LINE.findall(head[0])) if head else "").splitlines()
    parts = [part.strip() for line in lines for part in line.split("&&")]
    return [Command(str(source.relative_to(ROOT)), part, "", span=False) for part in parts]


def _block_commands(text: str, name: str) -> Iterator[Command]:
    for block in FENCE.finditer(text):
        if block["language"] not in ("", "bash", "sh", "console"):
            continue
        before, after = text[: block.start()].splitlines(), text[block.end() :].splitlines()
        around = "\n".join(before[-LINES_AROUND:] + after[:LINES_AROUND])
        for line in block["body"].replace("\\\n", " ").splitlines():
            for part in line.split("&&"):
                part = part.strip()
                shell = block["language"] != ""
                if part and (shell or part.split()[0] in (*PROGRAMS, *PROXRL)):
                    yield Command(name, part, around, span=False)


def _span_commands(text: str, name: str) -> Iterator[Command]:
    for span in SPAN.finditer(text):
        line = " ".join(span[1].split())
        if line.split()[:1] and line.split()[0] in (*PROGRAMS, *PROXRL) and " " in line:
            yield Command(name, line, text[max(0, span.start() - 200) : span.end() + 200], span=True)
