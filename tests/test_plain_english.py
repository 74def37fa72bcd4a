"""The project's prose is plain English: phrases that read as translated are rejected, with what to write instead."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("actor", "benchmarks", "configs", "examples", "exchange", "pipeline", "rollout", "scripts")
# Git globs.
COVERED = (
    *(f"**/{pattern}" for pattern in ("*.md", "*.yaml", "*.yml", "Makefile", "Dockerfile", "pyproject.toml")),
    *(f"{package}/**/*.py" for package in PACKAGES),
)
NOUN = r"(argument|column|distance|engine|event|file|integer|key|length|number|plain|rounding|split|way)"
UNIT = r"(batch|completion|file|line|minibatch|problem|process|prompt|rank|row|seed|sequence|step|token|worker)"
# Phrase (a space matches any white space) → what to write instead.
PLAIN = {
    r"(go|goes|going|went|gone) on (after|as|from|in|over|to|under|until|when|where|with)": "resumes, continues",
    r"how to go on": "how to resume",
    r"mend(s|ed|ing)?": "fix",
    rf"(?<!there\s)(is|are) no {NOUN}s?": "is not a, is not supported",
    r"(is|are|was|were) given (up|that too)": "gave up on, is not restarted",
    r"(is|are|was|were) (told|asked)( again| apart)?": "is distinguished, is requeued",
    r"ask(s|ed|ing)? (held-out|the (engine|policy|model|held-out))": "evaluate on, request from",
    r"told apart": "distinguished",
    r"passed over": "skipped",
    r"(stands?|stood|standing) still": "is paused",
    r"standstill": "pause",
    r"(stands?|stood) (above|against|at|below|beside|for|here|in|near|once|there|within)": "is in, is listed in",
    r"(lies|lay) (above|at|below|beside|in|near|under)": "is in, is near",
    r"(move|moved) away what": "move or delete the conflicting file",
    r"at work": "running",
    r"(a|the) step's own": "per step, of the step",
    r"of (its|their|one's) own[,.;]": "its own …, separate",
    rf"(batch|figure|file|half|line|number|object|one|ratio|row|sample|second|table)s? a {UNIT}": "per",
    r"(bytes|completions|groups|gigabytes|requests|samples|steps|tokens|GB|s) a " + rf"(second|{UNIT})": "per",
    r"in the words of": "as … calls it",
    r"(hold|holds|held) proved": "has verified",
    r"(un)?proved (version|weight)s?": "verified",
    r"what stands in": "the conflicting",
    r"(bear|bears|bore) (a|an|its|the)": "carries",
    r"anew": "again",
    r"for it (may|would|is|has)": "because it",
    r"where there (is|are) (none|one|some)": "if there is one",
    r"whatever is asked": "always",
    r"as it comes": "with its defaults",
    r"does as well": "works too",
    r"(leads|lead) to no": "there is no … at",
}
PHRASES = re.compile("|".join(rf"\b{phrase}\b" for phrase in PLAIN).replace(" ", r"\s+"), re.IGNORECASE)
MARGIN = re.compile(r"(?<=\n)[ \t]*[#>|*-]+")  # of a comment, a quote or a list, in which a phrase may be broken


def covered_files() -> list[Path]:
    globs = [f":(glob){pattern}" for pattern in COVERED]
    listed = subprocess.run(["git", "ls-files", *globs], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split()]


def translated_in(text: str) -> list[str]:
    """Every translated phrase, with its line."""
    text = MARGIN.sub(lambda margin: " " * len(margin[0]), text)
    return [f"line {text.count(chr(10), 0, m.start()) + 1}: {' '.join(m[0].split())}" for m in PHRASES.finditer(text)]


@pytest.mark.parametrize("file", covered_files(), ids=lambda file: str(file.relative_to(ROOT)))
def test_no_phrase_reads_as_translated(file: Path) -> None:
    assert translated_in(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The same command goes on\n# from the last checkpoint.", ["line 1: goes on from"]),
        ("a fault that\nno objective can mend", ["line 2: mend"]),
        ("dtype is no argument of vLLM", ["line 1: is no argument"]),
        ("It is given up after 3 s.", ["line 1: is given up"]),
        ("Workers stand\n  still meanwhile.", ["line 1: stand still"]),
        ("one object a step", ["line 1: object a step"]),
        ("The run ended with\nthe step's own figures.", ["line 2: the step's own"]),
        ("The amended recommendation is a step forward; there is no file. Work continues.", []),
    ],
)
def test_a_phrase_is_found_where_it_begins(text: str, found: list[str]) -> None:
    assert translated_in(text) == found
