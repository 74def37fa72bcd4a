"""What in a run's last step calls for somebody: sentences that say what is wrong and where to look."""

from collections.abc import Callable, Mapping
from typing import Any

from rollout.weights.probe import LIMITS

Row = Mapping[str, Any]
Setting = Callable[[str], Any]

REFERENCE_KL_LIMIT = 0.2  # as actor.kl judges a drifting policy
LEAST_ESS = 0.5  # below it half of the batch is worth nothing


def alarms(last: Row, setting: Setting) -> list[str]:
    """The alarms of the last finished step.

    Args:
        last: its row of metrics.jsonl; empty before the first step.
        setting: dotted key → value of the run's config, None where it is missing.
    """
    if not last:
        return []
    return [*_workers(last, setting), *_agreement(last, setting), *_update(last), *_rewards(last)]


def _workers(last: Row, setting: Setting) -> list[str]:
    found = []
    proved, wanted = last.get("weight_sync/num_workers"), setting("rollout.num_workers")
    if proved is not None and isinstance(wanted, int) and proved < wanted:
        found.append(f"{proved:.0f} of {wanted} rollout workers proved the newest weights; see RUN/logs")
    restarts = last.get("buffer/num_worker_restarts") or 0
    if restarts:
        found.append(f"rollout workers were replaced {restarts:.0f} times; see RUN/logs")
    return found


def _agreement(last: Row, setting: Setting) -> list[str]:
    apart = disagreement(last, setting)
    found = [apart] if apart else []
    ess = last.get("mismatch/ess")
    if ess is not None and ess < LEAST_ESS:
        found.append(
            f"the effective sample size is {ess:.0%}; lower rollout.max_head_offpolicyness or the learning rate"
        )
    return found


def disagreement(last: Row, setting: Setting) -> str | None:
    """The sentence for a lag-0 mismatch above its limit; it names the check to begin with."""
    limit = setting("consistency.limit") or LIMITS.get(setting("model.dtype"))
    difference = last.get("mismatch/lag_0/abs_logp_diff")
    if limit is None or difference is None or difference <= limit:
        return None
    probe = last.get("weight_sync/probe_mean_abs_diff") or 0.0
    # The probe scores given tokens; a sample also goes through the sampler's own treatment of logits.
    rung = "weights" if probe > limit else "logits processing (temperature, top_p, top_k)"
    return (
        f"sampler and trainer differ by {difference:.1e} a token at lag 0 (limit {limit:g}); "
        f"begin with the check of {rung}: `proxrl doctor` on this config names the cause, see docs/doctor.md"
    )


def _update(last: Row) -> list[str]:
    found = []
    outliers = last.get("ppo_actor/update/num_outlier_updates/avg") or 0
    if outliers:
        found.append(
            "an optimizer step was skipped: its gradient norm was far outside its history; look for a defect in that "
            "batch (RUN/trajectories), or raise actor.optimizer.max_grad_norm_factor"
        )
    if (last.get("ppo_actor/update/num_skipped_updates/avg") or 0) > outliers:
        found.append("an optimizer step was skipped: its gradient was not finite; lower actor.optimizer.lr")
    kl = last.get("actor/kl_k2")
    if kl is not None and kl > REFERENCE_KL_LIMIT:
        found.append(f"the policy drifts from its reference (KL {kl:.2f}); check actor.kl.coef and the reward")
    return found


def _rewards(last: Row) -> list[str]:
    found = []
    if failures := last.get("rl/reward_failures") or 0:
        found.append(f"{failures:.0f} rewards failed in the last step; see RUN/logs/rollout-*.log")
    if failures := last.get("eval/num_failed_rewards") or 0:
        found.append(f"{failures:.0f} rewards failed in the evaluation and are left out; see RUN/logs/rollout-*.log")
    return found
