"""One optimizer step: gradient norm, clipping, and no update at all when the gradient is not to be trusted."""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from actor.grad_norm_history import GradNormHistory
from actor.zero_veto import norm_veto


@dataclass(frozen=True)
class StepOutcome:
    """What a step did. `grad_norm` is before clipping, over all ranks; NaN when a gradient was not finite.

    `outlier`: the update was skipped because its norm was far outside its history.
    """

    grad_norm: float
    applied: bool
    outlier: bool = False


def optimizer_step(engine: Any, max_grad_norm: float, history: GradNormHistory) -> StepOutcome:
    """Clip, update and clear the gradients that the last backward reduced. Collective.

    A gradient with a NaN or an infinity anywhere, or with a norm above `history.limit()`, skips the update on
    every rank alike; an applied one enters the history.
    """
    limit = history.limit()
    sharded = engine.zero_optimization_stage() > 0
    outcome = _zero_step(engine, limit) if sharded else _plain_step(engine, max_grad_norm, limit)
    if outcome.applied:
        history.add(outcome.grad_norm)
    return outcome


def _zero_step(engine: Any, limit: float) -> StepOutcome:
    """ZeRO computes the norm, skips where it is not finite or refused, and clips, all in its own step."""
    refused: list[float] = []

    def rejects(norm: float) -> bool:
        if norm > limit:
            refused.append(norm)
        return norm > limit

    with norm_veto(engine.optimizer, rejects):
        engine.step()
    if refused:
        return StepOutcome(refused[0], False, outlier=True)
    norm = engine.get_global_grad_norm()
    norm = float(norm) if norm is not None else math.nan
    applied = not getattr(engine.optimizer, "overflow", False) and math.isfinite(norm)
    return StepOutcome(norm if applied else math.nan, applied)


def _plain_step(engine: Any, max_grad_norm: float, limit: float) -> StepOutcome:
    """Without ZeRO every rank holds the same reduced gradients; rank 0's norm of them decides for all."""
    parameters = [p for p in engine.module.parameters() if p.grad is not None]
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters])
    dist.broadcast(norm, 0)
    value = float(norm)
    if not math.isfinite(value):
        engine.zero_grad()
        return StepOutcome(math.nan, False)
    if value > limit:
        engine.zero_grad()
        return StepOutcome(value, False, outlier=True)
    if max_grad_norm > 0:
        torch.nn.utils.clip_grads_with_norm_(parameters, max_grad_norm, norm)
    engine.step()
    return StepOutcome(value, True)


def set_learning_rate(engine: Any, rate: float) -> None:
    """Of every parameter group, from the next step on."""
    for group in engine.optimizer.param_groups:
        group["lr"] = rate


def poisoned(loss: torch.Tensor) -> torch.Tensor:
    """The loss, or NaN with NaN gradients when it is not finite.

    A loss can be infinite on one rank while its gradients are finite; poisoning them makes the
    global gradient norm tell every rank to skip the step, without a collective of its own.
    """
    return loss * torch.where(loss.detach().isfinite(), 1.0, torch.nan)
