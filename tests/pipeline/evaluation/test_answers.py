"""Figures and files of an evaluation of three problems with two answers each."""

import json

import pytest

from pipeline.errors import RunFailed
from pipeline.evaluation.answers import Answer, Problem, figures, lenient_scores, strict_scores
from pipeline.evaluation.report import Evaluated, to_json, write_evaluation, wrong_answers
from pipeline.evaluation.run import require_a_score


def _problem(name, *scores, strict=True, finish_reason="stop"):
    answers = tuple(
        Answer(f"answer {i} of {name}", 3 + i, finish_reason, lenient, exact if strict else None)
        for i, (lenient, exact) in enumerate(scores)
    )
    return Problem(name, f"question {name}", "#### 7", answers)


PROBLEMS = [
    _problem("a", (1.0, 1.0), (1.0, 0.0)),
    _problem("b", (0.0, 0.0), (1.0, 0.0)),
    _problem("c", (0.0, 0.0), (0.0, 0.0), finish_reason="length"),
]


def test_figures_of_both_ways_of_scoring():
    lenient = figures(lenient_scores(PROBLEMS), [1, 2], 1.0)
    assert lenient.reward == pytest.approx(3 / 6)
    assert lenient.pass_at[1].value == pytest.approx((1 + 0.5 + 0) / 3)
    assert lenient.pass_at[2].value == pytest.approx(2 / 3)
    strict = figures(strict_scores(PROBLEMS), [1, 2], 1.0)
    assert strict.pass_at[1].value == pytest.approx(0.5 / 3)
    assert strict.pass_at[2].value == pytest.approx(1 / 3)


def test_an_answer_whose_reward_failed_is_no_wrong_one():
    failed = Answer("?", 3, "stop", 0.0, 0.0, reward_failed=True, reward_error="KeyError")
    right, wrong = Answer("7", 3, "stop", 1.0, 1.0), Answer("8", 3, "stop", 0.0, 0.0)
    problems = [
        Problem("a", "q", "r", (right, failed)),
        Problem("b", "q", "r", (wrong, right)),
        Problem("c", "q", "r", (failed, failed)),
    ]
    for scores in (lenient_scores(problems), strict_scores(problems)):
        found = figures(scores, [1, 2], 1.0)
        assert found.reward == pytest.approx(2 / 3)
        assert found.pass_at[1].value == pytest.approx((1 + 0.5) / 2)
        assert found.pass_at[2].value == 1.0  # of b alone
    with pytest.raises(ValueError, match="pass@3 needs 3 scored samples"):
        figures(lenient_scores(problems), [3], 1.0)
    assert wrong_answers(problems, 1.0).startswith("# 0 of 3 problems")
    evaluated = Evaluated({}, problems, {}, 1.0)
    assert to_json(evaluated)["num_rewards_failed"] == 3


def test_an_evaluation_without_a_single_reward_is_refused():
    failed = Answer("?", 3, "stop", 0.0, None, reward_failed=True, reward_error="KeyError: 'x'")
    with pytest.raises(RunFailed, match=r"all 2 rewards failed, the last with KeyError: 'x'; fix reward\.function"):
        require_a_score([Problem("a", "q", "r", (failed, failed))])


def test_an_answer_is_correct_from_the_chosen_reward_on():
    graded = [[0.4, 0.6], [0.2, 0.1]]
    assert figures(graded, [2], 1.0).pass_at[2].value == 0.0
    assert figures(graded, [2], 0.5).pass_at[2].value == pytest.approx(0.5)


def test_a_data_set_without_a_strict_form_has_no_strict_scores():
    assert strict_scores([_problem("a", (1.0, 1.0), strict=False)]) is None


def test_wrong_answers_name_the_problems_without_a_correct_answer():
    text = wrong_answers(PROBLEMS, 1.0)
    assert text.startswith("# 1 of 3 problems without a correct answer\n")
    assert "## c\n\n    question c\n\nReference:\n\n    #### 7\n\nAnswer (cut off at the length limit):" in text
    assert "answer 0 of c" in text and "question b" not in text


def test_files(tmp_path):
    by_name = {"lenient": figures(lenient_scores(PROBLEMS), [1], 1.0)}
    evaluated = Evaluated(by_name, PROBLEMS, {"name": "x", "num_samples": 2}, 1.0)
    write_evaluation(tmp_path, evaluated)
    recorded = json.loads((tmp_path / "eval.json").read_text())
    assert recorded == json.loads(json.dumps(to_json(evaluated)))
    assert recorded["num_problems"] == 3 and recorded["response_tokens"] == 3.5
    assert recorded["truncated_fraction"] == pytest.approx(1 / 3)
    assert recorded["lenient"]["pass@1"]["value"] == pytest.approx(0.5)
    rows = [json.loads(line) for line in (tmp_path / "completions.jsonl").read_text().splitlines()]
    assert [(r["prompt_id"], r["sample"], r["lenient"]) for r in rows][:3] == [
        ("a", 0, 1.0),
        ("a", 1, 1.0),
        ("b", 0, 0),
    ]
    assert (tmp_path / "wrong.md").exists()
