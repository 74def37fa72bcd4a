"""The project's own prose reads as a native speaker would write it: known translated phrases are rejected."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COVERED = ("README.md", "CONTRIBUTING.md", "docs/*.md", "examples/**/*.md", "*.yaml", "*.yml", "Makefile", "Dockerfile")
GENERATED = ("docs/config.md", "docs/metrics.md")  # from the texts of the code, which COVERED does not hold yet
TRANSLATED = (
    r"(go|goes|going|went) on (from|with|over|to|where|after|in|until|under|as)\b",
    r"how to go on",
    r"(go|goes|going|went) on (when|while|around|exactly)\b",
    r"mend(s|ed|ing)?",
    r"is no (argument|file|way|plain|event|integer|number|key|engine|distance|length|rounding|approximation)",
    r"are no (plain|integers|numbers|keys|files)",
    r"(is|are|was) given (up|that too)",
    r"(is|are|was) told",
    r"told apart",
    r"passed over",
    r"(stands?|stood|standing) still|standstill",
    r"(stands?|stood) (there|here|in|at|on|beside|with|for|near|against|within|once|above|below) ",
    r"lies? (at|in|near|beside|under) ",
    r"at work",
    r"(a|the) (step|run|engine|worker|model|process|prompt|word|table|job)'s own (step|word|one)",
    r"(a|the) step's own",
    r"of (its|their) own,",
    r"of one's own",
    r"(one|a|an|each) [a-z]+ a (step|minibatch|sequence|completion|problem|prompt|row|process|line|file|seed|rank|token)",
    r"(tokens|completions|requests|steps|bytes|groups|seconds) a (second|step|problem|prompt|sequence|completion)",
    r"in the words of",
    r"holds? proved",
    r"proved weights|unproved",
    r"ask(s|ed|ing)? (held-out|the (engine|held-out|policy|model))",
    r"(are|is) asked (again|for)",
    r"what stands in",
    r"(bears?|bore) (a|the|its) ",
    r"by itself",
    r"anew",
    r"for it (would|may|is|has)",
    r"where there (is|are) (one|some|none)",
    r"whatever is asked",
    r"makes? (both|the model first)",
    r"it says",
    r"(says|tells) (whether|which) of it",
    r"as it comes",
    r"does as well",
    r"(begins?|began|begun) with the (check|rung)",
)
PHRASES = re.compile("|".join(rf"\b(?:{phrase})" for phrase in TRANSLATED), re.IGNORECASE)


def covered_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", *(f":(glob)**/{p}" if "/" not in p else f":(glob){p}" for p in COVERED)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [ROOT / name for name in listed if name not in GENERATED]


def phrases_in(text: str) -> list[str]:
    """Every phrase with its line number; a phrase may be broken over two lines, also of a comment."""
    joined = re.sub(r"\n[ \t#>|]*", lambda m: "\n" + " " * (len(m[0]) - 1), text)
    return [f"{joined.count(chr(10), 0, m.start()) + 1}: {' '.join(m[0].split())}" for m in _found(joined)]


def _found(text: str) -> list[re.Match[str]]:
    spaced = re.compile(PHRASES.pattern.replace(" ", r"\s+"), re.IGNORECASE)
    return list(spaced.finditer(text))


@pytest.mark.parametrize("file", covered_files(), ids=lambda file: str(file.relative_to(ROOT)))
def test_no_translated_phrase(file: Path) -> None:
    assert phrases_in(file.read_text(encoding="utf-8")) == []
