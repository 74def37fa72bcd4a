"""Errors of the approximated proximal policy by lag, under every clock, on the data of real runs.

    proxrl ablate --config configs/ablate/lags.yaml --out runs/lags
    python -m examples.experimental.prox_approx.clock_errors runs/lags/*/seed-1

Trains each run's trajectories again, in their order and from the run's initial weights, as `prox_logp_method=metrics`
does; every token of every minibatch is measured under all clocks against the same true log-probability. A run's first
steps, in which its lag still grows, are trained but not measured. How far the repeated training is from the run's own
is printed: the run's `rl/logprobs` are the witness.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from actor.interpolation import APPROXIMATIONS, CLOCKS, interpolation_weight
from actor.metrics import Metrics, to_floats
from actor.model import load_policy
from actor.process_group import device
from actor.ratios import floored
from actor.trainer import Clock, Trainer, Work
from benchmarks.training_cases import join_alone
from configs.loading.loader import load_config
from pipeline.batch.batching import build_batch
from pipeline.fitting_table import FittingTable, plain_console
from pipeline.records.json_lines import read_json_lines
from pipeline.records.run_folder import RunFolder
from pipeline.records.trajectories import read_groups

BEHAVIOR = "behavior"  # what standard PPO takes: no interpolation


@dataclass
class ErrorsByLag:
    """Sums of |approximation − truth| over tokens, by (method, clock) and lag."""

    totals: dict[tuple[str, str, int], float] = field(default_factory=lambda: defaultdict(float))
    counts: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def add(
        self,
        behavior: torch.Tensor,
        current: torch.Tensor,
        truth: torch.Tensor,
        versions: torch.Tensor,
        mask: torch.Tensor,
        clock: Clock,
    ) -> None:
        """One micro-batch: all [T], `truth` the log-probabilities at version `clock.version`."""
        lags = clock.version - versions
        errors = {(BEHAVIOR, ""): (behavior - truth).abs()}
        for name in CLOCKS:
            alpha = interpolation_weight(versions, clock.version, clock.minibatch, clock.num_minibatches, name)
            for method, approximate in APPROXIMATIONS.items():
                errors[method, name] = (approximate(behavior, current, alpha) - truth).abs()
        for lag in lags[mask].unique().tolist():
            here = mask & (lags == lag)
            self.counts[lag] += int(here.sum())
            for (method, name), error in errors.items():
                self.totals[method, name, lag] += float(error[here].sum(dtype=torch.float64))

    def mean(self, method: str, clock: str, lag: int) -> float:
        return self.totals[method, clock, lag] / self.counts[lag]


class MeasuringTrainer(Trainer):
    """A trainer that also fills `errors`, from the data of `first_version` on."""

    errors: ErrorsByLag
    first_version: int

    def _diagnostics(self, work: Work, logprobs: torch.Tensor, proximal: torch.Tensor | None, clock: Clock) -> Metrics:
        tokens, truth = work.batch.tokens, work.recomputed
        assert truth is not None, "the metrics method has made a forward pass"
        behavior, current = floored(tokens.behavior_logprobs, tokens.mask), floored(logprobs, tokens.mask)
        if clock.version >= self.first_version:
            self.errors.add(behavior, current, floored(truth, tokens.mask), tokens.versions, tokens.mask, clock)
        return super()._diagnostics(work, logprobs, proximal, clock)


def measure(run: RunFolder, errors: ErrorsByLag) -> float:
    """Train the run's trajectories again, filling `errors`; returns the largest |difference| to its `rl/logprobs`."""
    config = load_config(run.config, ["actor.prox_logp_method=metrics", "actor.num_workers=1"])
    torch.manual_seed(config.run.seed)
    trainer = MeasuringTrainer(config, load_policy(config.model, config.actor), device())
    trainer.errors, trainer.first_version = errors, config.rollout.max_head_offpolicyness
    own = {row["step"]: row["rl/logprobs"] for row in read_json_lines(run.metrics) if row["step"] > 0}
    largest = 0.0
    for path in sorted(run.trajectories.glob("step-*.jsonl")):
        step = int(path.stem.removeprefix("step-"))
        batch = build_batch(read_groups(path), config.actor, config.rollout.sampling.max_new_tokens)
        result = trainer.train_step(step - 1, batch.shares[0], batch.denominators)
        largest = max(largest, abs(to_floats(result["metrics"])["rl/logprobs"] - own[step]))
    return largest


def rows(errors: ErrorsByLag) -> Iterator[list[str]]:
    """Per lag: tokens, the behavior policy's error, then method × clock."""
    for lag in sorted(errors.counts):
        cells = [f"{errors.mean(BEHAVIOR, '', lag):.4f}"]
        cells += [f"{errors.mean(m, c, lag):.4f}" for m in APPROXIMATIONS for c in CLOCKS]
        yield [str(lag), f"{errors.counts[lag]:,}", *cells]


def header() -> list[str]:
    return ["lag", "tokens", BEHAVIOR, *(f"{m}, {c}" for m in APPROXIMATIONS for c in CLOCKS)]


def to_markdown(errors: ErrorsByLag) -> str:
    lines = [header(), ["---:"] * len(header()), *rows(errors)]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders of finished runs")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table as Markdown to this file")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the unrounded means to this file")
    options = parser.parse_args(arguments)
    console, errors = plain_console(), ErrorsByLag()
    join_alone()
    for run in options.runs:
        difference = measure(RunFolder(run.resolve()), errors)
        console.print(f"{run}: trained again, rl/logprobs within {difference:.1e} of the run's own")
    table = FittingTable(header(), "Mean |approximated − true| proximal log-probability per token", numbers=True)
    for cells in rows(errors):
        table.add_row(*cells)
    console.print(table)
    if options.out is not None:
        options.out.write_text(to_markdown(errors))
    if options.json is not None:
        means = [
            {"lag": lag, "tokens": errors.counts[lag], "method": m, "clock": c, "error": errors.mean(m, c, lag)}
            for m, c, lag in errors.totals
        ]
        options.json.write_text(json.dumps(means, indent=1) + "\n")


if __name__ == "__main__":
    main()
