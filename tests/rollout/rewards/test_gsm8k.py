"""Which completions earn the GSM8K reward. The reference answer is 72 unless a case names another."""

import time

import pytest

from rollout.rewards.answers import answers_equal, lenient_answer, reference_answer, strict_answer
from rollout.rewards.gsm8k import gsm8k_reward, gsm8k_strict_reward

REFERENCE = "She sold 48/2 = <<48/2=24>>24 in May.\nTogether 48+24 = <<48+24=72>>72.\n#### 72"
FAR = "and some more words without figures " * 40

RIGHT = [
    "#### 72",
    "####72",
    "#### 72.",
    "#### 72.00",
    "#### $72",
    "#### 72 clips",
    "#### 24*3",
    "#### 24 * 3 = 72",
    f"#### 72\n{FAR}",
    f"The answer is 72. {FAR}",
    "#### 2. Add both months\n48 + 24 is 72 altogether",
    "#### Step 1: halve\nHalf of 48 is 24, so the sum is 72",
    "72",
    "72%",
    "€72",
    "48+24=72",
    "She sold 72 clips.",
    "The answer is 72",
    "The answer is: **72**.",
    "The answer is $72.00$.",
    "The answer is 72. Check: 24*3=72 and 72-24 = 48",
    "the answer is 24 * 3 = 72 clips.",
    "the answer is 24 * 3",
    "**Answer:** 72",
    "Answer: \\(72\\)",
    "Final Answer: $\\frac{144}{2}$",
    "the answer is not clear, so 72",
    "\\boxed{72}",
    "\\boxed{ 72 }",
    "$$\\boxed{72}$$ and 5 more",
    f"\\boxed{{72}} {FAR}",
    "\\boxed{\\boxed{72}}",
    "\\boxed{\\text{72}}",
    "\\boxed{\\textbf{72} \\text{ clips}}",
    "\\boxed{72\\text{ clips}}",
    "\\boxed{72 \\, \\mathrm{km/h}}",
    "\\boxed{72^\\circ}",
    "\\boxed{\\$72}",
    "\\boxed{72\\%}",
    "\\boxed{x = 72}",
    "\\boxed{144/2}",
    "\\boxed{\\frac{144}{2}}",
    "\\boxed{6\\sqrt{144}}",
    "\\boxed{10+62}",
    "\\boxed{70}, no: \\boxed{72}",
    "\\boxed{72} \\boxed{}",
    "\\fbox{72}",
    "The answer is 70. No, I forgot some: \\boxed{72}",
    "so we have \\boxed{72",
]

WRONG = [
    "",
    "no figure at all",
    "####",
    "#### 73",
    "#### -72",
    "#### 72,000",
    "#### 720",
    "#### 7 2",
    "#### 0.72",
    "#### 72\nwait, it is more.\n#### 70",
    "72 - 48",
    "72 clips, and then 24 more",
    "\\boxed{72} no: \\boxed{70}",
    "\\boxed{1 \\text{ or } 72}",
    "\\boxed{72x}",
    "\\boxed{}",
    "\\boxed{72/0}",
    "9" * 6000,
    "{" * 10000,
    "} \\boxed{" * 1000,
]

PAIRS = [
    ("1,234", "#### 1234", True),
    ("#### 1234", "#### 1,234", True),
    ("It costs $1,234.50.", "1234.5", True),
    ("\\boxed{1{,}234}", "#### 1,234", True),
    ("\\boxed{1\\,234}", "#### 1,234", True),
    ("109,200,000 people", "#### 109,200,000", True),
    ("#### -5", "#### -5", True),
    ("#### −5", "#### -5", True),
    ("$-5", "#### -5", True),
    ("-$5", "#### -5", True),
    ("\\boxed{- 5}", "#### -5", True),
    ("8 - 5", "#### -5", False),
    ("8-5", "#### -5", False),
    ("0.5", "#### 1/2", True),
    (".5", "#### 0.5", True),
    ("2 1/2 pizzas", "#### 2.5", True),
    ("\\boxed{2\\frac{1}{2}}", "#### 2.5", True),
    ("0.333333", "#### 1/3", True),
    ("0.33", "#### 1/3", False),
    ("10000001", "#### 10000000", False),
    ("7.2e1", "72", True),
    ("50%", "50", True),
    ("It is 40.", "\\boxed{40}", True),
    ("\\boxed{2\\sqrt{3}}", "\\sqrt{12}", True),
    ("\\boxed{2\\sqrt{3}}", "\\sqrt{13}", False),
    ("\\boxed{\\text{B}}", "B", True),
    ("\\boxed{\\text{C}}", "B", False),
    ("\\boxed{5x}", "5", False),
    ("\\boxed{5 m}", "5", True),
]


@pytest.mark.parametrize("completion", RIGHT)
def test_right_answers_earn_one(completion: str) -> None:
    assert gsm8k_reward("", completion, REFERENCE, {}) == 1.0


@pytest.mark.parametrize("completion", WRONG)
def test_wrong_answers_earn_nothing(completion: str) -> None:
    assert gsm8k_reward("", completion, REFERENCE, {}) == 0.0


@pytest.mark.parametrize(("completion", "reference", "equal"), PAIRS)
def test_forms_of_numbers(completion: str, reference: str, equal: bool) -> None:
    assert gsm8k_reward("", completion, reference, {}) == float(equal)


@pytest.mark.parametrize(
    ("text", "strict", "lenient"),
    [
        ("#### 1,200", "1,200", "1,200"),
        ("#### -7.5 degrees", "-7.5", "-7.5 degrees"),
        ("#### $72", None, "$72"),
        ("The answer is 72.", None, "72"),
        ("\\boxed{72}", None, "72"),
        ("##### 72 is a heading", None, "72"),
        ("nothing", None, None),
    ],
)
def test_strict_and_lenient_extraction_differ(text: str, strict: str | None, lenient: str | None) -> None:
    assert strict_answer(text) == strict
    assert lenient_answer(text) == lenient
    assert gsm8k_strict_reward("", text, "#### 72", {}) == float(strict == "72")


def test_the_references_own_solution_earns_one() -> None:
    for reference in (REFERENCE, "He earns 0.2 x 50 = $<<0.2*50=10>>10.\n#### 10", "Debt: 5 - 12 = -7\n#### -7"):
        assert gsm8k_reward("", reference, reference, {}) == 1.0
        assert gsm8k_strict_reward("", reference, reference, {}) == 1.0


@pytest.mark.parametrize("reference", ["", "   ", "####", "a long story without an answer " * 20])
def test_a_reference_without_an_answer_is_an_error_not_a_wrong_completion(reference: str) -> None:
    with pytest.raises(ValueError, match="holds no final answer"):
        gsm8k_reward("", "#### 72", reference, {})


def test_reference_answer_takes_the_marked_the_boxed_or_the_whole() -> None:
    assert reference_answer("12 - 2\n#### 10") == "10"
    assert reference_answer("so \\boxed{\\frac{1}{2}} it is") == "\\frac{1}{2}"
    assert reference_answer(" 42 ") == "42"


def test_a_verifier_that_does_not_finish_is_an_error_not_a_wrong_answer() -> None:
    with pytest.raises(TimeoutError, match="did not finish"):
        answers_equal("9^{9^{9}}", "72")


@pytest.mark.parametrize("unit", ["1,", "1 ", "- ", "12/", "#### ", "\\boxed{", "\\text{", "answer is ", "1.", "$"])
def test_time_is_linear_in_hostile_text(unit: str) -> None:
    lenient_answer(unit)
    start = time.process_time()  # others on this machine do not count
    lenient_answer(unit * 20000)
    assert time.process_time() - start < 2.0
