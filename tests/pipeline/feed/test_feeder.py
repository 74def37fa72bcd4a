"""The feeding of workers against a stand-in fleet whose answers the test decides."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from configs.schema import Config
from exchange.types import Group, Prompt
from pipeline.errors import RunFailed
from pipeline.feed.feeder import Rollouts
from pipeline.feed.staleness import Admission
from pipeline.records.json_lines import JsonLines, read_json_lines
from pipeline.records.ledger import Ledger
from pipeline.workers.slot import RequestTimedOut, WorkerLost
from tests.pipeline.groups import prompts, trajectory


@dataclass
class ListCursor:
    """Prompts in order; what is put back comes first."""

    waiting: list[Prompt]
    back: list[Prompt] = field(default_factory=list)

    def next(self):
        return 0, self.back.pop(0) if self.back else self.waiting.pop(0)

    def put_back(self, epoch, prompt):
        self.back.append(prompt)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


@dataclass
class StandInFleet:
    """Answers with the version that it is told to hold; loses the groups it is told to lose."""

    version: int = 0
    lose: set[str] = field(default_factory=set)

    def pick(self):
        return object()

    async def generate(self, slot, group_id, prompt, epoch, sampling, n):
        version = self.version
        await asyncio.sleep(0)
        if group_id in self.lose:
            raise WorkerLost("gone")
        samples = tuple(trajectory((version, version), reward=float(i)) for i in range(n))
        return Group(group_id, prompt.prompt_id, epoch, 0, samples)


def make(tmp_path, fleet, eta=0, batch=2, zero_variance="keep"):
    config = Config()
    config.rollout.max_head_offpolicyness = eta
    config.rollout.sampling.n_samples = 2
    config.actor.advantage.zero_variance = zero_variance
    admission = Admission(batch, eta, 100, total_steps=10)
    lines = JsonLines(tmp_path / "ledger.jsonl")
    return Rollouts(config, fleet, ListCursor(prompts(50)), Ledger(lines), admission)


async def with_feeder(rollouts, body):
    feeder = asyncio.ensure_future(rollouts.run())
    try:
        return await asyncio.wait_for(body, 5)
    finally:
        feeder.cancel()
        await rollouts.close()


def events(tmp_path, name):
    return [r["prompt_id"] for r in read_json_lines(tmp_path / "ledger.jsonl") if r["event"] == name]


def test_synchronous_mode_starts_exactly_one_batch_a_version(tmp_path):
    rollouts = make(tmp_path, StandInFleet())

    async def body():
        first = await rollouts.take(2, version=0)
        await asyncio.sleep(0.01)
        issued_before = rollouts.counts["issued"]
        rollouts._fleet.version = 1
        rollouts.set_version(1)
        second = await rollouts.take(2, version=1)
        return first, issued_before, second

    first, issued_before, second = asyncio.run(with_feeder(rollouts, body()))
    assert [g.prompt_id for g in first] == ["0", "1"]
    assert issued_before == 2
    assert [g.prompt_id for g in second] == ["2", "3"]


def test_a_stale_group_is_dropped_counted_and_its_prompt_asked_again(tmp_path):
    rollouts = make(tmp_path, StandInFleet(), eta=1)

    async def body():
        await rollouts.take(2, version=0)
        await asyncio.sleep(0.01)  # two groups of version 0 wait in the buffer
        rollouts._fleet.version = 2
        rollouts.set_version(2)
        return await rollouts.take(2, version=2)

    groups = asyncio.run(with_feeder(rollouts, body()))
    assert all(g.oldest_version == 2 for g in groups)
    assert rollouts.counts["dropped_stale"] == 2
    assert events(tmp_path, "requeued") == ["2", "3"]
    assert {"2", "3"} <= set(events(tmp_path, "issued")[4:])


def test_a_lost_group_is_asked_again(tmp_path):
    rollouts = make(tmp_path, StandInFleet(lose={"g00000001"}))
    groups = asyncio.run(with_feeder(rollouts, rollouts.take(2, version=0)))
    assert sorted(g.prompt_id for g in groups) == ["0", "1"]
    assert events(tmp_path, "requeued") == ["1"]
    assert rollouts.admission.running == 0


def test_resampling_replaces_groups_without_variance(tmp_path):
    fleet = StandInFleet()
    original = fleet.generate

    async def flat_first(slot, group_id, prompt, epoch, sampling, n):
        group = await original(slot, group_id, prompt, epoch, sampling, n)
        if group_id != "g00000000":
            return group
        same = tuple(trajectory((0,), reward=1.0) for _ in range(n))
        return Group(group_id, prompt.prompt_id, epoch, 0, same)

    fleet.generate = flat_first
    rollouts = make(tmp_path, fleet, zero_variance="resample")
    groups = asyncio.run(with_feeder(rollouts, rollouts.take(2, version=0)))
    assert [g.prompt_id for g in groups] == ["1", "2"]
    assert events(tmp_path, "dropped") == ["0"]


def test_an_error_of_a_group_reaches_the_consumer(tmp_path):
    fleet = StandInFleet()

    async def broken(*_):
        raise RuntimeError("a mistake in the code, not a lost worker")

    fleet.generate = broken
    rollouts = make(tmp_path, fleet)
    with pytest.raises(RuntimeError, match="a mistake in the code"):
        asyncio.run(with_feeder(rollouts, rollouts.take(2, version=0)))


def test_too_many_failed_rewards_stop_the_run(tmp_path):
    fleet = StandInFleet()

    async def failing(slot, group_id, prompt, epoch, sampling, n):
        failed = replace(trajectory((0,)), reward_failed=True, reward=0.0, reward_error="KeyError: 'x'")
        return Group(group_id, prompt.prompt_id, epoch, 0, (failed, trajectory((0,))))

    fleet.generate = failing
    rollouts = make(tmp_path, fleet, batch=100)
    # A fifth of 200 may fail; the run need not have seen 200 to know that more have.
    told = r"41 of the last 82 rewards failed .*=0\.2 of 200.*the last with KeyError: 'x'; fix reward\.function"
    with pytest.raises(RunFailed, match=told):
        asyncio.run(with_feeder(rollouts, rollouts.take(100, version=0)))


def test_episodes_that_failed_are_left_out_and_a_group_of_them_alone_is_dropped(tmp_path):
    fleet = StandInFleet()
    failed = replace(trajectory(()), reward_failed=True, reward=0.0)

    async def some_fail(slot, group_id, prompt, epoch, sampling, n):
        whole = (trajectory((0,)), trajectory((0,))) if group_id != "g00000000" else ()
        return Group(group_id, prompt.prompt_id, epoch, 0, (failed, *whole))

    fleet.generate = some_fail
    rollouts = make(tmp_path, fleet)
    groups = asyncio.run(with_feeder(rollouts, rollouts.take(2, version=0)))
    assert [(g.prompt_id, len(g.trajectories)) for g in groups] == [("1", 2), ("2", 2)]
    dropped = [r for r in read_json_lines(tmp_path / "ledger.jsonl") if r["event"] == "dropped"]
    assert [(r["prompt_id"], r["reason"]) for r in dropped] == [("0", "episode_failed")]
    assert rollouts.counts["rewards_failed"] == 3


def test_a_prompt_that_takes_too_long_again_and_again_is_dropped(tmp_path):
    fleet = StandInFleet()
    original, asked = fleet.generate, []

    async def slow_first(slot, group_id, prompt, *rest):
        asked.append(prompt.prompt_id)
        if prompt.prompt_id == "0":
            raise RequestTimedOut("waited 5 s")
        return await original(slot, group_id, prompt, *rest)

    fleet.generate = slow_first
    rollouts = make(tmp_path, fleet)
    groups = asyncio.run(with_feeder(rollouts, rollouts.take(2, version=0)))
    assert [g.prompt_id for g in groups] == ["1", "2"] and asked.count("0") == 3
    assert events(tmp_path, "requeued") == ["0", "0"] and events(tmp_path, "dropped") == ["0"]
    assert rollouts.admission.running == 0


def test_resampling_ends_where_no_group_varies(tmp_path):
    fleet = StandInFleet()

    async def flat(slot, group_id, prompt, epoch, sampling, n):
        return Group(group_id, prompt.prompt_id, epoch, 0, (trajectory((0,)), trajectory((0,))))

    fleet.generate = flat
    rollouts = make(tmp_path, fleet, zero_variance="resample")
    rollouts._cursor.waiting = prompts(600)
    told = r"no group of 500 in a row .*actor\.advantage\.zero_variance=resample .*set it to filter"
    with pytest.raises(RunFailed, match=told):
        asyncio.run(with_feeder(rollouts, rollouts.take(2, version=0)))


def test_whoever_waits_for_a_batch_hears_of_a_failure_elsewhere(tmp_path):
    rollouts = make(tmp_path, StandInFleet(lose={f"g{i:08d}" for i in range(50)}))

    async def body():
        asyncio.get_running_loop().call_later(0.01, rollouts.fail, RunFailed("the update failed"))
        await rollouts.take(2, version=0)

    rollouts.admission.version = -1  # nothing may be started
    with pytest.raises(RunFailed, match="the update failed"):
        asyncio.run(with_feeder(rollouts, body()))


def test_every_issued_prompt_is_accounted_for(tmp_path):
    rollouts = make(tmp_path, StandInFleet(lose={"g00000003"}), eta=1)

    async def body():
        for version in range(4):
            await rollouts.take(2, version)
            rollouts._fleet.version = version + 1
            rollouts.set_version(version + 1)

    asyncio.run(with_feeder(rollouts, body()))
    c = rollouts.counts
    assert c["issued"] == c["consumed"] + c["requeued"] + c["dropped"] + len(rollouts._prompts)
    assert c["consumed"] == 8


@pytest.mark.parametrize("ticks", range(5))
def test_the_feeder_ends_also_when_it_is_cancelled_just_as_a_version_arrives(tmp_path, ticks):
    rollouts = make(tmp_path, StandInFleet())

    async def body():
        feeder = asyncio.ensure_future(rollouts.run())
        await asyncio.sleep(0.01)
        rollouts.set_version(0)
        for _ in range(ticks):
            await asyncio.sleep(0)
        feeder.cancel()
        done, _ = await asyncio.wait({feeder}, timeout=1.5)
        feeder.cancel()
        await rollouts.close()
        return done

    assert asyncio.run(body()), "the cancellation was lost"
