"""One training step: proximal forward where needed, then forward, loss, backward and an update a minibatch.

```
pack every micro-batch once ─▶ proximal forwards at version v (only what prox_logp_method needs)
for minibatch i of n:  for each micro-batch: forward · loss share · backward     then one optimizer step
```
The proximal and the training forward run over the same rows, so on-policy ratios are exactly 1.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from actor.batch import Denominators, MicroBatch, TrainSequence
from actor.deepspeed_engine import start_engine
from actor.grad_norm_history import GradNormHistory
from actor.metrics import Metric, Metrics, merge
from actor.mismatch import mismatch_metrics, version_stats
from actor.model import PolicyNetwork
from actor.objective import update_loss
from actor.optimizer_step import StepOutcome, optimizer_step, poisoned, set_learning_rate
from actor.packing import pack
from actor.phase_timer import PhaseTimer
from actor.proximal import compute_logp_metrics, needs_forward, proximal_logprobs
from actor.proximal_record import proximal_record
from actor.random_state import random_state, restore_random_state
from actor.reference import Reference
from actor.schedule import learning_rate
from actor.second_moment import second_moment_cut, second_moment_mask
from configs.schema import Config

UPDATE = "ppo_actor/update/"


@dataclass(frozen=True)
class Work:
    """A packed micro-batch, and its proximal logprobs [T] where a forward pass computed them."""

    batch: MicroBatch
    recomputed: torch.Tensor | None


@dataclass(frozen=True)
class Part:
    """What a micro-batch adds to a step: metrics, and its logprobs [T] at version v where they are known."""

    metrics: Metrics
    measured: torch.Tensor | None


@dataclass(frozen=True)
class Clock:
    """Where the current policy stands: version v, minibatch i of n."""

    version: int
    minibatch: int
    num_minibatches: int


class Trainer:
    """The trained policy on one rank. Every method is collective: all ranks call it, in the same order."""

    def __init__(self, config: Config, policy: PolicyNetwork, device: torch.device) -> None:
        self.config, self.actor, self.device = config, config.actor, device
        self.temperature = config.rollout.sampling.temperature
        self.engine = start_engine(policy, config.actor, config.model.dtype)
        optimizer = config.actor.optimizer
        self.grad_norms = GradNormHistory(optimizer.max_grad_norm_factor, optimizer.max_grad_norm)
        self.reference = Reference.load(config, device) if config.actor.kl.coef > 0 else None

    @property
    def policy(self) -> PolicyNetwork:
        return self.engine.module

    def train_step(
        self, version: int, minibatches: list[list[list[TrainSequence]]], denominators: list[Denominators]
    ) -> dict[str, Any]:
        """Train on this rank's share `[minibatch][micro-batch][sequence]` of the batch of version `version`.

        A step whose updates are all skipped leaves the trainer as it was, so that it can be run again.
        `denominators` are those of the global minibatches. Returns `metrics` (this rank's part, to be
        merged over ranks), `timings` (`timing/…_s`) and `proximal_logprobs` (see `actor.proximal_record`).
        Raises ValueError for data without the versions that the proximal approximations need.
        """
        assert len(minibatches) == len(denominators)
        timer, begun_with = PhaseTimer(), random_state(self.device)
        rate = learning_rate(version, self.config.train.total_steps, self.actor.optimizer)
        set_learning_rate(self.engine, rate)
        with timer("pack"):
            packed = [[self._pack(part) for part in minibatch] for minibatch in minibatches]
        with timer("proximal_forward"):
            work = [[self._prepare(batch, i) for batch in minibatch] for i, minibatch in enumerate(packed)]
        parts: list[Metrics] = []
        measured: list[list[torch.Tensor | None]] = []
        any_applied = False
        for i, minibatch in enumerate(work):
            clock = Clock(version, i, len(work))
            with timer("forward_backward"):
                done = self._accumulate(minibatch, clock, denominators[i])
            parts += [part.metrics for part in done]
            measured.append([part.measured for part in done])
            with timer("optimizer"):
                outcome = optimizer_step(self.engine, self.actor.optimizer.max_grad_norm, self.grad_norms)
            parts.append(_step_metrics(outcome, rate, len(work)))
            any_applied |= outcome.applied
        if not any_applied:
            restore_random_state(begun_with, self.device)
        elif self.reference is not None:
            with timer("reference_reset"):
                self.reference.reset_when_due(version + 1, self.engine)
        with timer("proximal_record"):
            record = proximal_record(minibatches, measured)
        return {"metrics": merge(parts), "timings": timer.seconds(), "proximal_logprobs": record}

    @torch.no_grad()
    def score(self, sequences: list[list[TrainSequence]], of_reference: bool = False) -> list[list[float]]:
        """Logprobs of every response token of the micro-batches' sequences, in order, at the run's temperature."""
        policy = self.policy
        if of_reference:
            assert self.reference is not None, "no reference model is loaded"
            policy = self.reference.policy
        scores: list[list[float]] = []
        for part in sequences:
            logprobs = policy(self._pack(part), self.temperature)[0]
            scores += [x.tolist() for x in logprobs.split([len(s.response_token_ids) for s in part])]
        return scores

    @torch.no_grad()
    def probe(self, token_ids: tuple[int, ...]) -> list[float]:
        """Logprobs at temperature 1 of tokens 1 … N−1 of a sequence of N tokens, teacher forced."""
        n = len(token_ids) - 1
        if n < 1:
            return []
        zeros = (0,) * n
        sequence = TrainSequence(token_ids[:1], token_ids[1:], zeros, (0.0,) * n, zeros, (0.0,) * n, group=0)
        return self.policy(self._pack([sequence]))[0].tolist()

    def _pack(self, sequences: list[TrainSequence]) -> MicroBatch:
        return pack(sequences, self.policy.shares_prompts).to(self.device)

    def _prepare(self, batch: MicroBatch, minibatch: int) -> Work:
        needed = self.actor.use_decoupled_loss and needs_forward(self.actor.prox_logp_method, minibatch)
        return Work(batch, self._proximal_forward(batch) if needed else None)

    @torch.no_grad()
    def _proximal_forward(self, batch: MicroBatch) -> torch.Tensor:
        return self.policy(batch, self.temperature)[0]

    def _reference_logprobs(self, batch: MicroBatch) -> torch.Tensor | None:
        if self.reference is None or self.actor.kl.place != "loss":
            return None  # a KL in the reward was scored before the step
        return self.reference.logprobs(batch, self.temperature)

    def _accumulate(self, minibatch: list[Work], clock: Clock, denominators: Denominators) -> list[Part]:
        """Sum the gradients of the minibatch's micro-batches; the last one reduces them over ranks."""
        cut = self._second_moment_cut(minibatch)
        parts: list[Part] = []
        for index, work in enumerate(minibatch):
            self.engine.set_gradient_accumulation_boundary(index == len(minibatch) - 1)
            loss, part = self._loss(work, clock, denominators, cut)
            # DeepSpeed averages gradients over ranks; the shares of all ranks are to be summed.
            self.engine.backward(poisoned(loss) * dist.get_world_size(), scale_wrt_gas=False)
            parts.append(part)
        return parts

    def _loss(
        self, work: Work, clock: Clock, denominators: Denominators, cut: torch.Tensor | None
    ) -> tuple[torch.Tensor, Part]:
        """This micro-batch's share of the minibatch's loss, and what else is known of it."""
        tokens, actor = work.batch.tokens, self.actor
        want_entropy = actor.entropy_coef != 0 or clock.minibatch == 0
        logprobs, entropy = self.engine(work.batch, self.temperature, want_entropy)
        if not bool(logprobs.detach()[tokens.mask].isfinite().all()):
            return logprobs.sum() * torch.nan, Part({}, None)
        if entropy is not None and actor.entropy_coef == 0:
            entropy = entropy.detach()
        proximal = self._proximal(work, logprobs, clock)
        keep = None
        if cut is not None:
            assert proximal is not None
            keep = second_moment_mask(proximal - tokens.behavior_logprobs, cut)
        loss, metrics = update_loss(
            tokens, logprobs, proximal, self._reference_logprobs(work.batch), entropy, denominators, actor, keep
        )
        logprobs = logprobs.detach()
        measured = logprobs if work.recomputed is None and clock.minibatch == 0 else work.recomputed
        return loss, Part(metrics | self._diagnostics(work, logprobs, proximal, clock), measured)

    def _proximal(self, work: Work, logprobs: torch.Tensor, clock: Clock) -> torch.Tensor | None:
        if not self.actor.use_decoupled_loss:
            return None
        return proximal_logprobs(
            self.actor.prox_logp_method,
            work.batch.tokens,
            logprobs,
            work.recomputed,
            clock.version,
            clock.minibatch,
            clock.num_minibatches,
            self.actor.prox_version_clock,
        )

    @torch.no_grad()
    def _diagnostics(self, work: Work, logprobs: torch.Tensor, proximal: torch.Tensor | None, clock: Clock) -> Metrics:
        tokens = work.batch.tokens
        metrics = version_stats(tokens, clock.version, clock.minibatch, clock.num_minibatches)
        if clock.minibatch == 0:
            # Before the first update the training forward is the proximal forward.
            metrics |= mismatch_metrics(tokens, logprobs, clock.version)
        if proximal is not None:
            metrics |= compute_logp_metrics(
                self.actor.prox_logp_method,
                tokens,
                logprobs,
                proximal,
                work.recomputed,
                clock.version,
                clock.minibatch,
                clock.num_minibatches,
                self.actor.prox_version_clock,
            )
        return metrics

    def _second_moment_cut(self, minibatch: list[Work]) -> torch.Tensor | None:
        """M2PO's limit on |proximal − behavior|, from the tokens of the minibatch on all ranks."""
        if self.actor.m2_threshold is None:
            return None
        own = [
            (w.recomputed - w.batch.tokens.behavior_logprobs)[w.batch.tokens.mask]
            for w in minibatch
            if w.recomputed is not None
        ]
        everyone: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, torch.cat(own).cpu())
        return second_moment_cut(torch.cat(everyone), self.actor.m2_threshold).to(self.device)


def _step_metrics(outcome: StepOutcome, rate: float, num_minibatches: int) -> Metrics:
    norm = torch.tensor([outcome.grad_norm], dtype=torch.float64)
    return {
        f"{UPDATE}grad_norm": Metric.over(norm, norm.isfinite(), extremes=True),
        f"{UPDATE}lr": Metric.share(rate),
        # The shares of a step add up to a count of 1, so that the mean over ranks is the number of skips.
        f"{UPDATE}num_skipped_updates": Metric.share(float(not outcome.applied), 1.0 / num_minibatches),
        f"{UPDATE}num_outlier_updates": Metric.share(float(outcome.outlier), 1.0 / num_minibatches),
    }
