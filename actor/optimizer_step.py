"""One optimizer step: gradient norm, clipping, and no update at all when a gradient is not finite."""

import math
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class StepOutcome:
    """What a step did. `grad_norm` is before clipping, over all ranks; not finite when the step was skipped."""

    grad_norm: float
    applied: bool


def optimizer_step(engine: Any, max_grad_norm: float) -> StepOutcome:
    """Clip, update and clear the gradients that the last backward reduced. Collective.

    A gradient with a NaN or an infinity anywhere skips the update on every rank alike. ZeRO does
    so by itself; without ZeRO every rank holds the same reduced gradients and decides from them.
    """
    if engine.zero_optimization_stage() > 0:
        engine.step()
        norm = engine.get_global_grad_norm()
        norm = float(norm) if norm is not None else math.nan
        applied = not getattr(engine.optimizer, "overflow", False) and math.isfinite(norm)
        return StepOutcome(norm if applied else math.nan, applied)
    parameters = [p for p in engine.module.parameters() if p.grad is not None]
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters])
    if not bool(norm.isfinite()):
        engine.zero_grad()
        return StepOutcome(math.nan, False)
    if max_grad_norm > 0:
        torch.nn.utils.clip_grads_with_norm_(parameters, max_grad_norm, norm)
    engine.step()
    return StepOutcome(float(norm), True)


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
