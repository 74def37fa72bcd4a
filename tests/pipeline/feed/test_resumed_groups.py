"""Groups in flight when a run ended are asked again under their ids: same seeds, same place in the batch."""

import asyncio

from exchange.types import Group
from pipeline.feed.staleness import Admission
from pipeline.records.audit import audit
from pipeline.records.json_lines import read_json_lines
from pipeline.records.run_state import RunState
from pipeline.records.trajectories import remove_trajectories_after
from tests.pipeline.feed.test_feeder import StandInFleet, make, with_feeder
from tests.pipeline.groups import group, prompts


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


def test_what_a_lowered_number_of_steps_leaves_no_room_for_is_put_back(tmp_path):
    rollouts = make(tmp_path, StandInFleet(), batch=2)
    everything = prompts(10)
    rollouts._cursor.waiting = everything[5:]
    rollouts.admission.total_steps, rollouts.admission.accepted = 3, 4  # two of three steps are done
    for i in range(5):
        rollouts._ledger.record("issued", f"g{i:08d}", str(i), 0, 0)
    buffered = [Group(f"g{i:08d}", str(i), 0, 0, group("", (0, 0)).trajectories) for i in (0, 3)]
    in_flight = [("g00000001", 0, "1"), ("g00000002", 0, "2"), ("g00000004", 0, "4")]
    rollouts.restore(state(buffered[:1], in_flight, 5), {p.prompt_id: p for p in everything})
    assert rollouts.in_flight() == in_flight[:1] and [p.prompt_id for p in rollouts._cursor.back] == ["2", "4"]
    fuller = make(tmp_path, StandInFleet(), batch=1)
    fuller._cursor.waiting, fuller.admission.total_steps = everything[5:], 1
    fuller.restore(state(buffered, in_flight, 5), {p.prompt_id: p for p in everything})
    assert [g.prompt_id for g in fuller.buffer.groups] == ["0"] and fuller.in_flight() == []
    assert [p.prompt_id for p in fuller._cursor.back] == ["3", "1", "2", "4"]
    put_back = [r for r in read_json_lines(tmp_path / "ledger.jsonl") if r["event"] == "requeued"]
    assert {r["reason"] for r in put_back} == {"beyond_total_steps"} and len(put_back) == 6


def test_a_buffered_group_that_a_smaller_bound_makes_too_old_is_asked_again(tmp_path):
    """A resumed run may have a smaller η than the one that sampled the group."""
    fleet = StandInFleet(version=4)
    rollouts = make(tmp_path, fleet, eta=1, batch=1)
    everything = prompts(10)
    rollouts._cursor.waiting = everything[2:]
    rollouts.admission.version = rollouts.admission.accepted = 4
    for i in range(2):
        rollouts._ledger.record("issued", f"g{i:08d}", str(i), 0, i)
    buffered = [Group(f"g{i:08d}", str(i), 0, 0, group("", (2 + i, 4)).trajectories) for i in (0, 1)]
    rollouts.restore(state(buffered, [], 2), {p.prompt_id: p for p in everything})

    async def body():
        return [*await rollouts.take(1, version=4), *await rollouts.take(1, version=4)]

    groups = asyncio.run(with_feeder(rollouts, body()))
    assert [(g.prompt_id, g.oldest_version) for g in groups] == [("1", 3), ("0", 4)]
    rows = read_json_lines(tmp_path / "ledger.jsonl")
    assert audit([{"event": "dataset", "num_prompts": 10}, *rows]).problems == []
    assert [r["reason"] for r in rows if r["event"] == "requeued"] == ["stale"]


def test_files_of_steps_that_will_be_trained_again_are_removed(tmp_path):
    for name in ("step-000001.jsonl", "step-000002.jsonl", "step-000003.jsonl", "step-000004.partial", "notes.txt"):
        (tmp_path / name).write_text("{}")
    remove_trajectories_after(tmp_path, 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt", "step-000001.jsonl", "step-000002.jsonl"]
