"""Whether two final answers are the same number or the same mathematics."""

import re
import threading
from fractions import Fraction

from rollout.rewards.number_parsing import MAX_EXPRESSION_CHARS, parse_number, plain_expression

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
