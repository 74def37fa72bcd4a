"""Finding the final answer in a completion or in a reference: `#### N`, `\boxed{}`, "the answer is", a last number.

Whether two final answers are the same number or the same mathematics.
"""

import re
import threading
from collections.abc import Iterator
from fractions import Fraction

from rollout.rewards.numbers import MAX_EXPRESSION_CHARS, last_number, leading_number, parse_number, plain_expression

TOLERANCE = Fraction(1, 10**6)  # absolute: 0.333333 is a third, 10,000,001 is not 10,000,000
VERIFY_TIMEOUT_S = 2  # math-verify takes whole seconds

_MATHEMATICS = re.compile(r"[0-9\\^]")


def answers_equal(answer: str, reference: str) -> bool:
    """True when `answer` means `reference`. Numbers are compared exactly here, all else by math-verify.

    Raises:
        TimeoutError: when math-verify does not finish.
        Exception: whatever math-verify fails with; the caller counts it, it is not a wrong answer.
    """
    value, expected = parse_number(answer), parse_number(reference)
    if value is not None and expected is not None:
        return abs(value - expected) <= TOLERANCE
    answer, reference = plain_expression(answer), plain_expression(reference)
    if answer == reference:
        return bool(answer)
    if len(answer) > MAX_EXPRESSION_CHARS or not (_MATHEMATICS.search(answer) or _MATHEMATICS.search(reference)):
        return False
    return _same_mathematics(answer, reference)


def _same_mathematics(answer: str, reference: str) -> bool:
    # Half a second to import, and most answers are plain numbers.
    from math_verify import parse, verify
    from math_verify.errors import TimeoutException

    # math-verify's limit is SIGALRM, which exists in a main thread only; elsewhere the caller sets the limit.
    limit = VERIFY_TIMEOUT_S if threading.current_thread() is threading.main_thread() else None
    try:
        expected = parse(f"${reference}$", parsing_timeout=limit, raise_on_error=True)
        parsed = parse(f"${answer}$", parsing_timeout=limit, raise_on_error=True)
        return bool(verify(expected, parsed, timeout_seconds=limit, raise_on_error=True))
    except TimeoutException as error:
        raise TimeoutError(f"math-verify did not finish on {answer!r} against {reference!r}") from error


# The form the GSM8K references use, as their authors' own evaluation reads it.
_STRICT = re.compile(r"(?<!#)####[ \t]*(-?[0-9][0-9,]*(?:\.[0-9]+)?|-?\.[0-9]+)")
_MARKER = re.compile(r"(?<!#)####(?!#)[ \t]*([^\n]*)")
_PHRASE = re.compile(
    r"(?:\b(?:the|final|my|our)[ ]answer|^\W{0,4}answer)\b(?:\*\*)?(?:\s+is|\s*[:=])(?:\s*:)?\s*([^\n]{0,200})",
    re.IGNORECASE | re.MULTILINE,
)
_BRACES = re.compile(r"\\\\|\\[{}]|\\(?:boxed|fbox)\s*\{|\{|\}")
_HEADING = re.compile(r"[0-9]+[.):]\s+[A-Za-z]")  # "#### 2. Add the apples" is Markdown, not an answer
_DECORATION = "*_` \t$(\\[:"
_OPERATOR = re.compile(r"\s*(?:[-+*/^×·÷=]|\\times|\\cdot|x\s*[0-9])")
_SENTENCE_END = re.compile(r"[.;!?](?:\s|$)")


def strict_answer(text: str) -> str | None:
    """The number after the last `####`, as GSM8K's own evaluation reads it; None when that form is missing."""
    found = _STRICT.findall(text)
    return found[-1] if found else None


def lenient_answer(text: str) -> str | None:
    """The last explicit answer (`#### N`, `\\boxed{N}`, "the answer is N"), wherever it stands; else the last number.

    Returns the expression as written, a number or mathematics; None when the text holds neither.
    """
    stated = [*_marked(text), *_boxed(text), *_phrased(text)]
    if stated:
        return max(stated)[1]
    return last_number(text)


def reference_answer(answer: str) -> str:
    """The final answer of a reference: after its last `####`, else inside its last `\\boxed{}`, else all of it.

    Raises:
        ValueError: when nothing is left, or the rest is too long to be an answer.
    """
    if "####" in answer:
        final = answer.rsplit("####", 1)[1].strip()
    else:
        boxed = list(_boxed(answer))
        final = boxed[-1][1] if boxed else answer.strip()
    if not final or len(final) > MAX_EXPRESSION_CHARS:
        raise ValueError(
            f"the reference answer {answer[-80:]!r} holds no final answer; "
            "write it as '#### N', as \\boxed{N}, or alone in the answer column"
        )
    return final


def _marked(text: str) -> Iterator[tuple[int, str]]:
    for match in _MARKER.finditer(text):
        if not _HEADING.match(match.group(1)):
            expression = _stated_expression(match.group(1))
            if expression is not None:
                yield match.start(), expression


def _phrased(text: str) -> Iterator[tuple[int, str]]:
    for match in _PHRASE.finditer(text):
        expression = _stated_expression(match.group(1))
        if expression is not None:
            yield match.start(), expression


def _stated_expression(line: str) -> str | None:
    """The answer a line begins with: a number, what its first sentence equals, or a calculation left undone."""
    sentence = _SENTENCE_END.split(line.translate({0x2212: "-"}), maxsplit=1)[0].strip()
    if parse_number(sentence) is not None:
        return sentence
    sentence = sentence.rsplit("=", 1)[-1].strip()
    leading = leading_number(sentence.lstrip(_DECORATION))
    if leading is None:
        return sentence if sentence.startswith(("\\frac", "\\dfrac", "$\\", "\\(\\")) else None
    number, rest = leading
    return sentence if _OPERATOR.match(rest) else number


def _boxed(text: str) -> Iterator[tuple[int, str]]:
    """Contents of the boxes in order, the innermost of nested ones, empty and unclosed ones left out. Linear time."""
    if "boxed" not in text and "fbox" not in text:
        return
    open_braces: list[tuple[int, bool]] = []  # where the content begins, and whether it is a box's
    last_box_start = -1
    for match in _BRACES.finditer(text):
        token = match.group()
        if token == "}":
            if not open_braces:
                continue
            start, is_box = open_braces.pop()
            content = text[start : match.start()].strip()
            if is_box and content and last_box_start < start:
                last_box_start = start
                yield start, content
        elif token.endswith("{") and token != "\\{":
            open_braces.append((match.end(), token != "{"))
