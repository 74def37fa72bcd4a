"""Completions per second of the whole loop against TRL's GRPOTrainer: same model, prompts, group size and lengths.

    python -m benchmarks.trl_speed [--json OUT] [--steps N] [--repeats N] [--limit-s SECONDS] [key=value ...]

proxrl runs the quickstart as it is, its checks of every weight update included, without evaluations and checkpoints.
TRL runs in an environment of its own, made at the first call, with the same torch and transformers, in float32, with
no gradient checkpointing, and one micro-batch per step, on one thread and on every core: a small model may be faster on
one, and the faster is what proxrl is compared with. All train, from the same model on.
"""

import dataclasses
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measurement import median_ratio, say
from benchmarks.outcome import Outcome, Target, arguments, show
from benchmarks.quickstart_run import FILL, LOOP_ONLY, last_lines, run_limited, run_quickstart
from benchmarks.quiet import run_quietly
from benchmarks.sampler_cases import quickstart_config, quickstart_prompts
from benchmarks.trl_environment import environment, process_variables
from configs.schema import Config
from rollout.environments.location import EnvironmentFolder
from rollout.environments.stamp import read_stamp

PROXRL, TRL = "proxrl (vLLM, asynchronous)", "TRL GRPOTrainer (transformers generate), {} threads"
SCRIPT = Path(__file__).with_name("trl_steps.py")


@dataclasses.dataclass(frozen=True)
class Step:
    """One training step, of whichever program."""

    seconds: float
    tokens: float  # mean, of a completion
    reward: float  # mean


def proxrl_steps(config: Config, keys: list[str], limit_s: float) -> list[Step]:
    """One run of the quickstart."""
    rows = run_quickstart([*LOOP_ONLY, *keys], config.train.total_steps, limit_s, config.run.seed)
    return [Step(r["timing/step_s"], r["rl/response_tokens"], r["rl/reward"]) for r in rows]


def trl_steps(config: Config, folder: EnvironmentFolder, prompts: Path, threads: int, limit_s: float) -> list[Step]:
    """One run of TRL on the same job.

    Raises:
        RuntimeError: it failed.
    """
    with tempfile.TemporaryDirectory() as place:
        out, log, settings = (Path(place) / name for name in ("steps.jsonl", "log.txt", "settings.json"))
        settings.write_text(json.dumps(trl_settings(config, prompts, out, threads)))
        command = [str(folder.python), str(SCRIPT), str(settings)]
        with log.open("w") as output:
            code = run_limited(command, limit_s, output, dict(process_variables(folder, threads)))
        if code not in (0, None):
            raise RuntimeError(f"TRL: {last_lines(log)}")
        lines = out.read_text().splitlines() if out.exists() else []
    return [Step(**json.loads(line)) for line in lines]


def trl_settings(config: Config, prompts: Path, out: Path, threads: int) -> dict[str, Any]:
    """`trl_steps.Settings` of the job that `config` describes."""
    sampling, optimizer = config.rollout.sampling, config.actor.optimizer
    return {
        "model": str(Path(config.model.path).absolute()),
        "prompts": str(prompts),
        "out": str(out),
        "steps": config.train.total_steps,
        "seed": config.run.seed,
        "threads": threads,
        "prompts_per_step": config.train.batch_size,
        "completions_per_prompt": sampling.n_samples,
        "max_new_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "lr": optimizer.lr,
        "weight_decay": optimizer.weight_decay,
        "max_grad_norm": optimizer.max_grad_norm,
        "eps_clip": config.actor.eps_clip,
    }


def write_prompts(config: Config, path: Path) -> None:
    """The training problems for TRL, with the token ids that proxrl makes of them."""
    prompts = quickstart_prompts(config, count=config.train.total_steps * config.train.batch_size)
    rows = ({"prompt": p.text, "token_ids": list(p.token_ids), "answer": p.answer} for p in prompts)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def rate(steps: list[Step], completions: int) -> float:
    """Completions per second, the first steps left out.

    Raises:
        ValueError: no other was finished.
    """
    kept = steps[FILL:]
    if not kept:
        raise ValueError(f"only {len(steps)} steps were finished in time; raise --limit-s, or let the machine rest")
    return completions * len(kept) / sum(s.seconds for s in kept)


def row(name: str, rates: list[float], runs: list[list[Step]], trl_rates: list[float]) -> dict[str, Any]:
    """The table's row of one program."""
    steps = [s for run in runs for s in run[FILL:]]
    tokens = statistics.fmean(s.tokens for s in steps)
    return {
        "by": name,
        "step s": statistics.median(s.seconds for s in steps),
        "completions/s": statistics.median(rates),
        "speed of TRL": median_ratio(rates, trl_rates),
        "tokens per completion": tokens,
        "tokens/s": statistics.median(rates) * tokens,
        "reward": statistics.fmean(s.reward for s in steps),
    }


def compare(config: Config, keys: list[str], repeats: int, limit_s: float) -> dict[str, list[list[Step]]]:
    """Steps of every case, run by run, taking turns."""
    folder = environment(say)
    with tempfile.TemporaryDirectory() as place:
        prompts = Path(place) / "prompts.jsonl"
        write_prompts(config, prompts)
        cases: dict[str, Callable[[], list[Step]]] = {PROXRL: partial(proxrl_steps, config, keys, limit_s)}
        for threads in sorted({1, len(os.sched_getaffinity(0))}):
            cases[TRL.format(threads)] = partial(trl_steps, config, folder, prompts, threads, limit_s)
        runs: dict[str, list[list[Step]]] = {name: [] for name in cases}
        for repeat in range(repeats):
            for name, run in cases.items():
                runs[name].append(run())
                say(f"round {repeat + 1} of {repeats}: {name}, {len(runs[name][-1])} steps")
    return runs


def fastest(rates: Mapping[str, list[float]]) -> list[float]:
    """The rates of TRL with the number of threads that serves it best."""
    return max((values for name, values in rates.items() if name != PROXRL), key=statistics.median)


def main() -> None:
    parser = arguments(__doc__, repeats=2)
    parser.add_argument("--steps", type=int, default=25, help="training steps of every run (default 25)")
    parser.add_argument("--limit-s", type=float, default=180.0, help="seconds that a run may take (default 180)")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="config keys to change, in both")
    options = parser.parse_args()
    config = quickstart_config([f"train.total_steps={options.steps}", *options.overrides])
    runs = compare(config, options.overrides, options.repeats, options.limit_s)
    completions = config.train.batch_size * config.rollout.sampling.n_samples
    rates = {name: [rate(steps, completions) for steps in many] for name, many in runs.items()}
    trl = fastest(rates)
    rows = [row(name, rates[name], runs[name], trl) for name in runs]
    targets = [Target("completions/s, of TRL's", median_ratio(rates[PROXRL], trl), 1.5, True)]
    title = (
        f"{config.train.batch_size} prompts × {config.rollout.sampling.n_samples} completions per step, up to "
        f"{config.rollout.sampling.max_new_tokens} tokens, the quickstart's model, {os.cpu_count()} CPU cores"
    )
    show(Outcome(title, rows, targets, notes()), options.json)


def notes() -> list[str]:
    """What TRL ran with."""
    stamp = read_stamp(environment(say))
    versions: Mapping[str, str] = stamp.versions if stamp else {}
    return [", ".join(f"{name} {number}" for name, number in versions.items())]


if __name__ == "__main__":
    run_quietly(main)
