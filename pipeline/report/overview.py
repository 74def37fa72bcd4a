"""The figures of one run that head a page."""

from collections.abc import Mapping
from typing import Any

from pipeline.report.duration import duration
from pipeline.report.run_data import RunData
from pipeline.report.series import Series, elapsed_s, tail_mean

FINAL = 0.1  # of the steps: "final" figures do not hang on one step


def overview(run: RunData, series: Mapping[str, Series]) -> list[tuple[str, str]]:
    """Label and text, in order; the same labels for every run ("–" where a run has no such figure)."""
    summary = run.summary or {}
    seconds = summary.get("train_time_s")
    return [
        ("state", "finished" if run.summary else "unfinished"),
        ("steps", f"{run.num_steps} of {run.setting('train.total_steps', '?')}"),
        ("held-out reward before", _first(series, "eval/reward")),
        ("held-out reward after", _last_eval(series)),
        ("reward, last tenth", _tail(series, "rl/reward", ".3f")),
        ("mean lag", _mean(series, "rl/lag", ".2f")),
        ("|δ| at lag 0", _mean(series, "mismatch/lag_0/abs_logp_diff", ".1e")),
        ("generated tok/s", _mean(series, "throughput/generated_tokens_per_s", ",.0f")),
        ("trained tok/s", _mean(series, "throughput/trained_tokens_per_s", ",.0f")),
        ("time", duration(float(seconds) if seconds is not None else elapsed_s(run.rows)[-1])),
        ("groups dropped as stale", _last(series, "buffer/num_dropped_stale", ".0f")),
        ("worker restarts", _last(series, "buffer/num_worker_restarts", ".0f")),
        ("allowed disagreements", ", ".join(run.setting("rollout.allow_disagreement") or []) or "none"),
    ]


def versions_of(run: RunData) -> dict[str, Any]:
    """What both halves ran on, as summary.json has it."""
    versions = (run.summary or {}).get("versions")
    return versions if isinstance(versions, dict) else {}


def _mean(series: Mapping[str, Series], name: str, form: str) -> str:
    return format(float(series[name].values.mean()), form) if name in series else "–"


def _tail(series: Mapping[str, Series], name: str, form: str) -> str:
    return format(tail_mean(series[name].values, FINAL), form) if name in series else "–"


def _last(series: Mapping[str, Series], name: str, form: str) -> str:
    return format(float(series[name].values[-1]), form) if name in series else "–"


def _first(series: Mapping[str, Series], name: str) -> str:
    evaluated = series.get(name)
    return "–" if evaluated is None or evaluated.steps[0] > 0 else _interval(series, 0)


def _last_eval(series: Mapping[str, Series]) -> str:
    evaluated = series.get("eval/reward")
    return "–" if evaluated is None or evaluated.steps[-1] == 0 else _interval(series, -1)


def _interval(series: Mapping[str, Series], index: int) -> str:
    """The value with its standard error."""
    value, error = series["eval/reward"], series.get("eval/stderr")
    text = f"{value.values[index]:.3f}"
    matching = error is not None and len(error.values) == len(value.values)
    return f"{text} ± {error.values[index]:.3f}" if matching and error is not None else text
