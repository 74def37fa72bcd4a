"""Groups in flight when a run ended are asked again under their ids: same seeds, same place in the batch."""

import asyncio

from pipeline.admission import Admission
from pipeline.audit import audit
from pipeline.json_lines import read_json_lines
from pipeline.run_state import RunState
from pipeline.trajectory_log import remove_trajectories_after
from tests.pipeline.groups import group, prompts
from tests.pipeline.test_rollouts import StandInFleet, make, with_feeder


def state(buffered, in_flight, next_group):
    return RunState(
        version=0, cursor={}, next_group=next_group, buffered=buffered, in_flight=in_flight, ledger_bytes=0,
        metrics_bytes=0, counts={"issued": next_group}, train_time_s=0.0,
    )  # fmt: skip


def test_interrupted_groups_keep_ids_and_order_and_the_ledger_stays_sound(tmp_path):
    rollouts = make(tmp_path, StandInFleet(), batch=4)
    everything = prompts(10)
    rollouts._cursor.waiting = everything[3:]
    for i in range(3):  # as the run before had recorded them
        rollouts._ledger.record("issued", f"g{i:08d}", str(i), 0, 0)
    buffered = group("g00000001", (0, 0))
    buffered = type(buffered)(buffered.group_id, "1", 0, 0, buffered.trajectories)
    in_flight = [("g00000000", 0, "0"), ("g00000002", 0, "2")]
    rollouts.restore(state([buffered], in_flight, 3), {p.prompt_id: p for p in everything})
    assert rollouts.in_flight() == in_flight  # also before they are asked again: a checkpoint may come first
    assert isinstance(rollouts.admission, Admission) and rollouts.admission.accepted == 1
    groups = asyncio.run(with_feeder(rollouts, rollouts.take(4, version=0)))
    assert [(g.group_id, g.prompt_id) for g in groups] == [(f"g{i:08d}", str(i)) for i in range(4)]
    result = audit([{"event": "dataset", "num_prompts": 10}, *read_json_lines(tmp_path / "ledger.jsonl")])
    assert result.problems == [] and result.requeued.total() == 2 and result.num_consumed == 4


def test_files_of_steps_that_will_be_trained_again_are_removed(tmp_path):
    for name in ("step-000001.jsonl", "step-000002.jsonl", "step-000003.jsonl", "step-000004.partial", "notes.txt"):
        (tmp_path / name).write_text("{}")
    remove_trajectories_after(tmp_path, 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt", "step-000001.jsonl", "step-000002.jsonl"]
