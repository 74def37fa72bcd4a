"""From a target to its written evaluation."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray.exceptions import RayTaskError
from rich.console import Console

from configs.schema import Config
from pipeline.errors import RunFailed
from pipeline.evaluation.answers import Problem, figures, lenient_scores, strict_scores
from pipeline.evaluation.ask import Asked, Asking, ask
from pipeline.evaluation.progress import EvaluationProgress
from pipeline.evaluation.report import Evaluated, write_evaluation
from pipeline.evaluation.target import Target
from pipeline.machine.remote import as_local
from pipeline.preflight.check import check
from pipeline.records.run_folder import RunFolder
from pipeline.run.held_out import eval_max_new_tokens

STRICT_FORMS = {"rollout.rewards.gsm8k:gsm8k_reward": "rollout.rewards.gsm8k:gsm8k_strict_reward"}


@dataclass(frozen=True)
class Measure:
    """What is measured: n samples per problem, pass@k for every k, and from which score on an answer is correct."""

    num_samples: int
    ks: Sequence[int]
    temperature: float | None  # None: greedy for one sample, the job's own for several
    strict_function: str | None
    correct_at: float


def evaluate_target(target: Target, measure: Measure, out: Path, console: Console) -> Evaluated:
    """Ask, score, and write `eval.json`, `completions.jsonl` and `wrong.md` into `out`.

    Raises:
        ValueError: something the user can fix, before an engine starts where possible.
        RunFailed: an engine did not start, none is left, or every reward failed.
    """
    config = target.config
    if too_many := [k for k in measure.ks if k > measure.num_samples]:
        raise ValueError(
            f"pass@{too_many[0]} needs at least {too_many[0]} samples per problem; "
            f"raise --samples={measure.num_samples}"
        )
    if config.eval.num_samples == 0:
        raise ValueError("eval.num_samples=0 leaves no problem to ask; set it to 1 or more")
    check(config, trains=False)
    folder = RunFolder(out.resolve())
    folder.logs.mkdir(parents=True, exist_ok=True)
    asking = _asking(config, measure)
    console.print(f"{target.name}: starting the engines (about a minute on a CPU)")
    with EvaluationProgress(console, measure.correct_at) as progress:
        try:
            asked = asyncio.run(ask(config, asking, folder, progress.answered))
        except RayTaskError as error:
            raise as_local(error) from error
    require_a_score(asked.problems)
    scores = {"lenient": lenient_scores(asked.problems), "strict": strict_scores(asked.problems)}
    by_name = {name: figures(s, measure.ks, measure.correct_at) for name, s in scores.items() if s is not None}
    evaluated = Evaluated(by_name, asked.problems, _setting(target, asking, asked), measure.correct_at)
    write_evaluation(folder.root, evaluated)
    return evaluated


def require_a_score(problems: Sequence[Problem]) -> None:
    """Raises RunFailed: there are rewards, and every one failed."""
    failed = [a for p in problems for a in p.answers if a.reward_failed]
    if failed and not any(p.scored for p in problems):
        error = failed[-1].reward_error
        raise RunFailed(f"all {len(failed)} rewards failed, the last with {error}; fix reward.function")


def _asking(config: Config, measure: Measure) -> Asking:
    temperature = measure.temperature
    if temperature is None:
        temperature = 0.0 if measure.num_samples == 1 else config.rollout.sampling.temperature
    strict = measure.strict_function or STRICT_FORMS.get(config.reward.function)
    if config.rollout.episode is not None:
        strict = None  # an episode scores itself; its text holds what others wrote as well
    return Asking(measure.num_samples, temperature, strict)


def _setting(target: Target, asking: Asking, asked: Asked) -> dict[str, Any]:
    config = target.config
    return {
        "name": target.name,
        "model": config.model.path,
        "dtype": config.model.dtype,
        "dataset": config.eval_dataset.path,
        "split": config.eval_dataset.split,
        "num_left_out": asked.num_left_out,
        "num_samples": asking.num_samples,
        "temperature": asking.temperature,
        "max_new_tokens": eval_max_new_tokens(config),
        "seed": config.run.seed,
        "reward": config.reward.function,
        "strict_reward": asking.strict_function,
        "engine": config.rollout.engine,
        "versions": asked.workers[0].get("versions", {}),
    }
