"""Which curves a page shows, in which order. What is not named here stands under "All other metrics"."""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """`metrics` are patterns of names; one plot for each recorded metric that matches one whole."""

    title: str
    about: str
    metrics: tuple[str, ...]


UPDATE = "ppo_actor/update/"

SECTIONS: tuple[Section, ...] = (
    Section(
        "Outcome",
        "Rewards in training and on held-out problems.",
        ("rl/reward", "eval/reward", "rl/response_tokens", "rl/truncated_fraction"),
    ),
    Section(
        "Agreement",
        "δ = proximal − behavior log-probability. Lag 0 is the engine alone; the shaded range is healthy.",
        (
            "mismatch/lag_0/abs_logp_diff",
            "mismatch/abs_logp_diff",
            "mismatch/lag_0/rel_logp_diff",
            "mismatch/stale_kv/abs_logp_diff",
            "mismatch/kl_k3",
            "mismatch/ess",
            "mismatch/lag_0/prob_corr",
            "weight_sync/probe_mean_abs_diff",
        ),
    ),
    Section(
        "Policy update",
        "What the optimizer saw.",
        (
            f"{UPDATE}actor_loss/avg",
            f"{UPDATE}importance_weight/avg",
            f"{UPDATE}behave_imp_weight/avg",
            f"{UPDATE}clip_ratio/avg",
            f"{UPDATE}entropy/avg",
            f"{UPDATE}grad_norm/avg",
            "rl/clamp_log_ratio_new_old_indicator",
            "rl/kl_new_old",
            "rl/ess",
            "actor/kl_k2",
            "behavior_correction/filtered_fraction",
            f"{UPDATE}lr/avg",
        ),
    ),
    Section(
        "Proximal approximation",
        "Error of each approximation against a forward pass at version v.",
        (
            rf"{UPDATE}compute_logp/\w+/abs_error/avg",
            rf"{UPDATE}compute_logp/\w+/behave_imp_weight_abs_error/avg",
            rf"{UPDATE}compute_logp/\w+/importance_weight_abs_error_/avg",
        ),
    ),
    Section(
        "Staleness and buffer",
        "Lag of a token = version of the proximal policy − version that sampled it.",
        ("rl/lag", "rl/lag/max", "rl/num_multi_version", "buffer/num_groups", "buffer/num_running",
         "buffer/num_dropped_stale"),
    ),
    Section(
        "Speed",
        "Wall-clock time.",
        (
            "throughput/generated_tokens_per_s",
            "throughput/trained_tokens_per_s",
            "timing/step_s",
            "pipeline/bubble_fraction",
            "weight_sync/pause_s",
            "weight_sync/load_s",
        ),
    ),
)  # fmt: skip


def laid_out(names: Iterable[str]) -> tuple[list[tuple[Section, list[str]]], list[str]]:
    """Sections with the recorded metrics that belong to them, and the names that belong to none, sorted."""
    left = sorted(names)
    placed = []
    for section in SECTIONS:
        members = [n for pattern in section.metrics for n in left if re.fullmatch(pattern, n)]
        if members:
            placed.append((section, members))
            left = [n for n in left if n not in members]
    return placed, left
