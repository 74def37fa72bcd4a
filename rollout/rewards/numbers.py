"""Reading a number out of what a person or a model writes for one: `$1,234.50`, `\\frac{1}{2}`, `72 clips.`"""

import re
from fractions import Fraction

MAX_EXPRESSION_CHARS = 200  # longer is no answer; bounds the work on hostile text

_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{{1,3}}(?![0-9A-Za-z]))?"
_UNIT_CHAR = r"A-Za-z%°€£¥¢₹²³µ"
_UNIT = (
    rf"(?:\s*%|\s+[{_UNIT_CHAR}]|[{_UNIT_CHAR}](?=[{_UNIT_CHAR}])|[°€£¥¢₹])"
    rf"[{_UNIT_CHAR}\s.,;'/()-]*(?:\^\{{?[0-9]\}}?)?"
)
_MIXED = rf"(?P<whole>{_DECIMAL})\s*\\[dt]?frac\{{(?P<mn>[0-9]+)\}}\{{(?P<md>[0-9]+)\}}"
_MIXED_PLAIN = r"(?P<pwhole>[0-9]+)\s+(?P<pn>[0-9]+)\s*/\s*(?P<pd>[0-9]+)"
_FRACTION = rf"(?P<n>{_DECIMAL})\s*/\s*(?P<d>{_DECIMAL})"
_LATEX_FRACTION = rf"\\[dt]?frac\{{\s*(?P<ln>-?{_DECIMAL})\s*\}}\{{\s*(?P<ld>{_DECIMAL})\s*\}}"
_NUMBER = re.compile(
    rf"(?P<sign>[-+]?)\s*(?:{_MIXED}|{_MIXED_PLAIN}|{_LATEX_FRACTION}|{_FRACTION}|(?P<plain>{_DECIMAL}))"
    rf"(?:{_UNIT})?[\s.,;:!]*"
)
# A minus right after a word, a number or a closing bracket is an operator, not a sign.
_IN_TEXT = re.compile(
    rf"(?:(?<![\w)\]}}%.])-(?:\\?[$€£¥])?)?"
    rf"(?:[0-9]+[ ][0-9]+/[0-9]+|{_DECIMAL}(?:/[0-9]+(?![0-9/]))?)"
)

_MARKUP = re.compile(r"\\text(?:bf|it|rm)?\s*\{([^{}]*)\}|\\(?:mathrm|mathbf|mathit|mbox|operatorname)\s*\{([^{}]*)\}")
_SPACING = re.compile(r"\\[,!;: ]|\\(?:left|right|displaystyle|quad|qquad)(?![A-Za-z])|[\u00a0\u2009\u202f]")
_DROPPED = re.compile(r"\\?\$|\\[()\[\]]|\*\*|[`€£¥₹]")
_EQUALS = re.compile(r"=|≈|\\approx")


def plain_expression(text: str) -> str:
    """`text` without Markdown and LaTeX dress (bold, `$`, `\\text{}`, spacing); `x = 5` becomes `5`."""
    text = text.translate({0x2212: "-", 0x2013: "-"}).replace("{,}", ",").replace("\\%", "%")
    text = _SPACING.sub("", text).replace("^\\circ", "°").replace("^{\\circ}", "°")
    for _ in range(3):  # \text{} nests at most a few deep in practice
        text = _MARKUP.sub(lambda m: f" {m.group(1) or m.group(2) or ''} ", text)
    text = _EQUALS.split(text)[-1]
    return _DROPPED.sub("", text).strip(" \t\n*_")


def parse_number(text: str) -> Fraction | None:
    """The exact value of `text` when all of it is one number with at most a currency, `%` or a unit.

    A percentage is its number (`50%` is 50). None when it is anything else, for instance `2\\sqrt{3}` or `3 or 4`.
    """
    if len(text) > MAX_EXPRESSION_CHARS:
        return None
    match = _NUMBER.fullmatch(plain_expression(text))
    if match is None:
        return None
    g = match.groupdict()
    try:
        value = _magnitude(g)
    except ZeroDivisionError:
        return None
    return -value if g["sign"] == "-" else value


def _magnitude(g: dict[str, str | None]) -> Fraction:
    if g["whole"] is not None:
        return _fraction(g["whole"]) + _fraction(g["mn"]) / _fraction(g["md"])
    if g["pwhole"] is not None:
        return _fraction(g["pwhole"]) + _fraction(g["pn"]) / _fraction(g["pd"])
    if g["ln"] is not None:
        return _fraction(g["ln"]) / _fraction(g["ld"])
    if g["n"] is not None:
        return _fraction(g["n"]) / _fraction(g["d"])
    return _fraction(g["plain"])


def _fraction(digits: str | None) -> Fraction:
    assert digits is not None
    return Fraction(digits.replace(",", ""))


def last_number(text: str) -> str | None:
    """The last number standing in running text (`48-24` ends in 24, `= -24` in -24), as written; None without one."""
    numbers = [m.group() for m in _IN_TEXT.finditer(text.translate({0x2212: "-"}).replace("{,}", ","))]
    return numbers[-1] if numbers else None


def leading_number(text: str) -> tuple[str, str] | None:
    """The number that `text` begins with, and what follows it; None when it begins with something else."""
    match = _IN_TEXT.match(text)
    return None if match is None else (match.group(), text[match.end() :])
