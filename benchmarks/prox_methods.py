"""Time of a training step under every `actor.prox_logp_method`, at 1 and 4 minibatches.

python -m benchmarks.prox_methods [--json OUT] [--shape quickstart|smollm2] [--threads N] [--clock cpu]
"""

import dataclasses
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

import torch
from transformers import AutoConfig

from benchmarks.measurement import median_ratio, seconds_by_case
from benchmarks.outcome import Outcome, Target, arguments, compute_options, show
from benchmarks.quiet import run_quietly
from benchmarks.training_cases import (
    SHAPES,
    VERSION,
    StepInput,
    join_alone,
    make_trainer,
    random_sequences,
    save_random_model,
    step_input,
)
from configs.actor_schema import ActorConfig

METHODS: tuple[str, ...] = get_args(get_type_hints(ActorConfig)["prox_logp_method"])
MINIBATCHES = (1, 4)


def steps(model_path: str, actor: ActorConfig, data: StepInput) -> dict[str, Callable[[], object]]:
    """One training step for each method, on trainers of their own."""
    cases: dict[str, Callable[[], object]] = {}
    for method in METHODS:
        choice: dict[str, Any] = {"prox_logp_method": method}
        trainer = make_trainer(model_path, dataclasses.replace(actor, **choice))
        cases[method] = partial(trainer.train_step, VERSION, data.minibatches, data.denominators)
    return cases


def main() -> None:
    parser = arguments(__doc__, repeats=7)
    compute_options(parser)
    parser.add_argument("--shape", choices=SHAPES, default="quickstart", help="of the model (default quickstart)")
    parser.add_argument("--sequences", type=int, default=128, help="completions per step (default 128)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    join_alone()
    rows: list[dict[str, Any]] = []
    seconds: dict[tuple[int, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = save_random_model(options.shape, Path(folder))
        sequences = random_sequences(options.sequences, AutoConfig.from_pretrained(path).vocab_size)
        for n in MINIBATCHES:
            actor = ActorConfig(ppo_n_minibatches=n)
            data = step_input(sequences, n, actor.max_tokens_per_microbatch)
            taken = seconds_by_case(steps(path, actor, data), options.repeats, options.clock)
            seconds |= {(n, method): values for method, values in taken.items()}
            rows += [
                {
                    "minibatches": n,
                    "prox_logp_method": method,
                    "seconds": statistics.median(values),
                    "speed of recompute": median_ratio(taken["recompute"], values),
                }
                for method, values in taken.items()
            ]
    speed = {row["prox_logp_method"]: row["speed of recompute"] for row in rows if row["minibatches"] == 1}
    reuse = median_ratio(seconds[1, "reuse"], seconds[1, "loglinear"])
    targets = [
        Target("loglinear, speed of recompute at 1 minibatch", speed["loglinear"], 1.27, True),
        Target("reuse, time of loglinear at 1 minibatch", reuse, 1.03, False),
    ]
    tokens = sum(s.num_tokens for s in sequences)
    title = f"Training step: {options.sequences} completions, {tokens} tokens, shape {options.shape}"
    show(Outcome(title, rows, targets), options.json)


if __name__ == "__main__":
    run_quietly(main)
