"""Folders that look like those of runs, for tests of what reads them. Numbers come from a seeded generator."""

import json
import math
import random
from pathlib import Path
from typing import Any

import yaml

from exchange.types import Group, Trajectory
from pipeline.records.trajectories import write_trajectories

LAGS = 4
NUM_TRAINER_METRICS = 60
VOCABULARY = 500
TOOL = range(5, 9)  # tokens of each response that the policy did not sample


def write_run(
    root: Path,
    rows: list[dict[str, Any]],
    config: dict[str, Any] | None = None,
    summary: dict[str, Any] | None = None,
) -> Path:
    """A run's folder with the given rows of metrics."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tree = {"run": {"name": root.name}, "train": {"total_steps": len(rows)}} | (config or {})
    (root / "config.yaml").write_text(yaml.safe_dump(tree))
    if summary is not None:
        (root / "summary.json").write_text(json.dumps(summary))
    return root


def seeded_run(root: Path, seed: int, num_steps: int, num_logged: int = 6, model_path: str = "/no/model") -> Path:
    """A run of `num_steps` with every kind of metric, and trajectories of its last `num_logged` steps."""
    rng = random.Random(seed)
    config = {
        "run": {"name": root.name, "seed": seed},
        "model": {"path": model_path, "dtype": "float32"},
        "train": {"total_steps": num_steps, "batch_size": 4},
        "rollout": {"max_head_offpolicyness": 2, "num_workers": 1, "sampling": {"max_new_tokens": 64}},
        "actor": {"prox_logp_method": ("recompute", "reuse", "loglinear", "linear")[seed % 4]},
    }
    rows = [{"step": 0, "version": 0, "time_s": 30.0, "eval/reward": 0.25, "eval/stderr": 0.03}]
    rows += [_row(rng, step, num_steps) for step in range(1, num_steps + 1)]
    write_run(root, rows, config, {"train_time_s": 2.0 * num_steps, "versions": {"rollout": [{"vllm": "0.32.0"}]}})
    (root / "trajectories").mkdir(exist_ok=True)
    for step in range(max(1, num_steps - num_logged + 1), num_steps + 1):
        groups = [_group(rng, step, i) for i in range(3)]
        write_trajectories(root / "trajectories", step, groups, _proximal(rng, groups))
    return root


def _row(rng: random.Random, step: int, num_steps: int) -> dict[str, Any]:
    done = step / num_steps
    reward = 0.3 + 0.4 * (1 - math.exp(-4 * done)) + rng.gauss(0, 0.05)
    row: dict[str, Any] = {"step": step, "version": step, "time_s": 30.0 + 2.0 * step + rng.random()}
    row |= {"rl/reward": reward, "rl/lag": 1 + 0.3 * rng.random(), "rl/lag/max": 2.0, "rl/response_tokens": 40.0}
    row |= {"rl/truncated_fraction": 0.1 * rng.random(), "buffer/num_dropped_stale": float(step // 50)}
    for bucket, size in [("", 3e-4), ("stale_kv/", 2e-3)] + [(f"lag_{k}/", 10 ** (k - 5)) for k in range(LAGS)]:
        for name in ("abs_logp_diff", "rel_logp_diff", "kl_k3", "kl_k1", "ess", "prob_corr"):
            row[f"mismatch/{bucket}{name}"] = size * (1 + rng.random())
    for name in ("actor_loss", "importance_weight", "behave_imp_weight", "clip_ratio", "entropy", "lr"):
        row[f"ppo_actor/update/{name}/avg"] = 1 + rng.gauss(0, 0.02)
    row["ppo_actor/update/grad_norm/avg"] = math.exp(rng.gauss(0, 0.5)) * (40 if rng.random() < 0.002 else 1)
    row["actor/kl_k2"] = 0.05 * done + 0.01 * rng.random()
    row |= {f"ppo_actor/update/other_{i}/avg": rng.random() for i in range(NUM_TRAINER_METRICS)}
    row |= {"throughput/generated_tokens_per_s": 900 + 50 * rng.random(), "throughput/trained_tokens_per_s": 2000.0}
    row |= {"timing/step_s": 2.0, "timing/wait_batch_s": 0.4, "timing/train_s": 1.4, "timing/publish_s": 0.1}
    row |= {"timing/proximal_forward_s": 0.3, "timing/forward_backward_s": 0.9, "pipeline/bubble_fraction": 0.2}
    row |= {"weight_sync/pause_s": 0.02, "weight_sync/load_s": 0.05, "weight_sync/probe_mean_abs_diff": 1e-6}
    if step % 25 == 0 or step == num_steps:
        row |= {"eval/reward": reward - 0.05, "eval/stderr": 0.03}
    return row


def _proximal(rng: random.Random, groups: list[Group]) -> dict[tuple[int, int], list[float]]:
    return {
        (g, s): [b + rng.gauss(0, 0.05) for b in t.behavior_logprobs]
        for g, group in enumerate(groups)
        for s, t in enumerate(group.trajectories)
    }


def _group(rng: random.Random, step: int, index: int) -> Group:
    def trajectory() -> Trajectory:
        n = rng.randint(20, 60)
        change = rng.randint(0, n)  # an update arrived here
        newest = max(0, step - 1 - rng.randint(0, 1))
        return Trajectory(
            prompt_token_ids=tuple(rng.randrange(3, VOCABULARY) for _ in range(12)),
            response_token_ids=tuple(rng.randrange(3, VOCABULARY) for _ in range(n)),
            behavior_logprobs=tuple(-rng.expovariate(1.5) for _ in range(n)),
            versions=tuple(max(0, newest - 1) if i < change else newest for i in range(n)),
            loss_mask=tuple(int(not TOOL.start <= i < TOOL.stop) for i in range(n)),
            reward=float(rng.random() < 0.5),
            finish_reason="stop",
        )

    return Group(f"g{step:06d}-{index}", f"p{index}", 0, 0, tuple(trajectory() for _ in range(4)))
