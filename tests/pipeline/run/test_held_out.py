"""Held-out problems while workers are lost and rewards fail."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from configs.schema import Config
from exchange.types import Group
from pipeline.errors import RunFailed
from pipeline.run.held_out import evaluate
from pipeline.workers.slot import NoWorkersLeft, RequestTimedOut, WorkerLost
from tests.pipeline.groups import prompts, trajectory


@dataclass
class StandInFleet:
    """Loses prompts as often as told; a reward is the prompt's number, a failed one where told."""

    lose: dict[str, list[type[WorkerLost]]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    workers_left: int = 100
    asked: list[str] = field(default_factory=list)

    def pick(self):
        if self.workers_left == 0:
            raise NoWorkersLeft("no rollout worker is left")
        return object()

    async def generate(self, slot, group_id, prompt, epoch, sampling, n):
        self.asked.append(group_id)
        await asyncio.sleep(0)
        if self.lose.get(prompt.prompt_id):
            self.workers_left -= 1
            raise self.lose[prompt.prompt_id].pop()("lost")
        answer = trajectory((0,), reward=float(prompt.prompt_id))
        if prompt.prompt_id in self.failed:
            answer = replace(answer, reward=0.0, reward_failed=True, reward_error="KeyError: 'x'")
        return Group(group_id, prompt.prompt_id, epoch, 0, (answer,))


def run(fleet, num_problems=3):
    return asyncio.run(evaluate(Config(), fleet, prompts(num_problems), "7"))


def test_a_problem_is_asked_again_for_as_long_as_there_are_workers():
    fleet = StandInFleet(lose={"1": [WorkerLost] * 5})
    result = run(fleet)
    assert (result.reward, result.num_problems) == (1.0, 3)
    assert [a for a in fleet.asked if a.startswith("eval-7-1-")] == [f"eval-7-1-{i}" for i in range(6)]


def test_it_ends_with_the_last_worker():
    with pytest.raises(NoWorkersLeft):
        run(StandInFleet(lose={"1": [WorkerLost] * 99}, workers_left=4))


def test_a_problem_that_takes_too_long_is_not_asked_for_ever():
    fleet = StandInFleet(lose={"1": [RequestTimedOut] * 99})
    with pytest.raises(RunFailed, match=r"problem 1 took longer than rollout\.request_timeout_s=.* 3 times; raise it"):
        run(fleet)


def test_a_reward_that_failed_is_no_wrong_answer():
    result = run(StandInFleet(failed={"0"}))
    assert (result.reward, result.num_problems, result.num_failed_rewards) == (1.5, 2, 1)
    assert result.metrics()["eval/num_failed_rewards"] == 1.0


def test_an_evaluation_without_any_reward_is_no_zero():
    with pytest.raises(RunFailed, match=r"all 3 rewards of the evaluation failed, the last with KeyError: 'x'; fix"):
        run(StandInFleet(failed={"0", "1", "2"}))
