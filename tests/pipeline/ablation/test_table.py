import math

import pytest

from pipeline.ablation.result import Spread, run_result, variant_result
from pipeline.ablation.table import table_rows, to_csv, to_markdown


def runs(times, task, evals):
    rows = [{"rl/reward": 0.0}] * 9
    return [
        run_result(i, {"train_time_s": t, "eval_after": {"eval/reward": e}}, [*rows, {"rl/reward": r}])
        for i, (t, r, e) in enumerate(zip(times, task, evals, strict=True))
    ]


def test_final_task_reward_is_the_mean_of_the_last_tenth():
    rows = [{"rl/reward": 0.0}] * 18 + [{"rl/reward": 0.5}, {"rl/reward": 1.0}]
    assert run_result(1, {"train_time_s": 1.0}, rows).task_reward == 0.75


def test_spread_by_hand():
    spread = Spread.of([1.0, 2.0, 3.0])
    assert (spread.mean, spread.std, spread.n) == (2.0, 1.0, 3)


def test_differs_only_beyond_the_spread_of_the_seeds():
    # Standard error of the difference 0.03·√(2/3) = 0.0245, 4 degrees of freedom: 5 % lie beyond 2.776 of them, 0.0680.
    a = Spread(0.80, 0.03, 3)
    assert Spread(0.867, 0.03, 3).differs_from(a) is False
    assert Spread(0.869, 0.03, 3).differs_from(a) is True
    assert Spread(0.90, 0.0, 1).differs_from(a) is None
    # Welch: spreads 0.04 and 0.001 leave 2.0 degrees of freedom, 4.30 standard errors of 0.0231.
    assert Spread(0.80 + 0.095, 0.001, 3).differs_from(Spread(0.80, 0.04, 3)) is False
    assert Spread(0.80 + 0.105, 0.001, 3).differs_from(Spread(0.80, 0.04, 3)) is True


def test_table_has_the_documents_columns():
    baseline = variant_result("recompute", runs([1242, 1242], [0.954, 0.954], [0.795, 0.795]))
    other = variant_result("loglinear", runs([978, 978], [0.937, 0.937], [0.799, 0.799]))
    rows = table_rows([baseline, other])
    assert rows[0].speed_up == "1.00×" and rows[1].speed_up == "1.27×"
    assert rows[1].training_time == "16.3 ± 0.0 min"
    assert rows[1].differs == "time, task reward, eval reward"
    assert "| loglinear | 2 | 16.3 ± 0.0 min | 0.937 ± 0.000 | 0.799 ± 0.000 | 1.27× |" in to_markdown(rows)
    assert to_csv(rows).splitlines()[1].startswith("recompute,2,20.7 ± 0.0 min")


def test_missing_evaluation_is_not_a_zero():
    result = run_result(1, {"train_time_s": 1.0, "eval_after": None}, [])
    assert math.isnan(result.eval_reward)
    assert table_rows([variant_result("a", [result])])[0].eval_reward == "–"


@pytest.mark.parametrize("n", [1])
def test_one_seed_says_that_the_spread_is_unknown(n):
    a = variant_result("a", runs([1.0] * n, [0.1] * n, [0.1] * n))
    assert table_rows([a, a])[1].differs == "unknown (one seed)"


def test_one_seed_has_no_spread_and_a_short_time_is_in_seconds():
    row = table_rows([variant_result("reuse", runs([42.4], [0.5], [0.25]))])[0]
    assert (row.training_time, row.task_reward, row.eval_reward) == ("42 s", "0.500", "0.250")
