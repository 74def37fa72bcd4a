"""The trajectories a step consumed, one JSON-lines file per step under RUN/trajectories."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from actor.proximal_record import ProximalLogprobs
from exchange.types import Group, Trajectory
from pipeline.records.run_state import trajectory_from_json


def write_trajectories(
    folder: Path, step: int, groups: Sequence[Group], proximal_logprobs: ProximalLogprobs | None = None
) -> Path:
    """Write `step-NNNNNN.jsonl`: token ids, logprobs, versions, reward and group of every trajectory.

    A row holds `proximal_logprobs` where they are given for it.
    """
    path = folder / f"step-{step:06d}.jsonl"
    partial = path.with_suffix(".partial")
    with partial.open("w") as file:
        for index, group in enumerate(groups):
            for sample, row in enumerate(_rows(step, group)):
                scored = (proximal_logprobs or {}).get((index, sample))
                file.write(json.dumps(row if scored is None else row | {"proximal_logprobs": scored}) + "\n")
    os.replace(partial, path)
    return path


def remove_trajectories_after(folder: Path, step: int) -> None:
    """Delete the files of later steps, which are going to be trained again, and what was written in part."""
    for path in folder.glob("step-*"):
        number = path.stem.removeprefix("step-")
        if path.suffix == ".partial" or (number.isdigit() and int(number) > step):
            path.unlink(missing_ok=True)


def _rows(step: int, group: Group) -> Iterator[dict[str, Any]]:
    for sample, t in enumerate(group.trajectories):
        yield {
            "step": step,
            "group_id": group.group_id,
            "prompt_id": group.prompt_id,
            "epoch": group.epoch,
            "worker": group.worker,
            "sample": sample,
            "prompt_token_ids": list(t.prompt_token_ids),
            "response_token_ids": list(t.response_token_ids),
            "behavior_logprobs": list(t.behavior_logprobs),
            "versions": list(t.versions),
            "loss_mask": list(t.loss_mask),
            "reward": t.reward,
            "reward_failed": t.reward_failed,
            "reward_error": t.reward_error,
            "finish_reason": t.finish_reason,
        }


def read_groups(path: Path) -> list[Group]:
    """The groups of one step's file, in the order in which they were trained on."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        groups.setdefault(row["group_id"], []).append(row)
    return [
        Group(name, rows[0]["prompt_id"], rows[0]["epoch"], rows[0]["worker"], tuple(map(_trajectory, rows)))
        for name, rows in groups.items()
    ]


def _trajectory(row: Mapping[str, Any]) -> Trajectory:
    return trajectory_from_json({f.name: row[f.name] for f in fields(Trajectory) if f.name in row})
