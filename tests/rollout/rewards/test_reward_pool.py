"""Rewards in processes: right values, and every way a reward function can fail contained and told."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from configs.errors import ConfigError
from configs.schema import RewardConfig
from exchange.types import Prompt, RewardResult
from rollout.rewards import process as reward_process
from rollout.rewards.pool import JOIN_TIMEOUT_S, RewardPool

PROMPT = Prompt("0", (1, 2), "answer", {"x": [1, "a"]}, "ask")
OBEY = "tests.rollout.sample_rewards:obey"


@contextmanager
def pool(function: str = OBEY, num_workers: int = 1, timeout_s: float = 20.0) -> Iterator[RewardPool]:
    opened = RewardPool(RewardConfig(function=function, num_workers=num_workers, timeout_s=timeout_s))
    try:
        yield opened
    finally:
        opened.close()


def score_all(rewards: RewardPool, *completions: str) -> list[RewardResult]:
    async def run() -> list[RewardResult]:
        return await asyncio.gather(*(rewards.score(PROMPT, text, (5, 6, 7), "stop") for text in completions))

    return asyncio.run(run())


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition: Callable[[], bool], within_s: float = 20.0) -> bool:
    """Whether it holds, now or in time."""
    end = time.monotonic() + within_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def gone(pid: int) -> bool:
    return until(lambda: not alive(pid), 5.0)


@pytest.fixture(scope="module")
def shared() -> Iterator[RewardPool]:
    with pool() as opened:
        yield opened


def test_rewards_come_back_to_their_own_completions(shared: RewardPool) -> None:
    numbers = [i / 4 for i in range(500)]
    results = score_all(shared, *(f"number {n}" for n in numbers))
    assert [r.reward for r in results] == numbers
    assert not any(r.failed for r in results)


def test_function_sees_prompt_answer_and_row(shared: RewardPool) -> None:
    assert score_all(shared, "seen") == [RewardResult(1.0)]


def test_bool_is_a_reward(shared: RewardPool) -> None:
    assert score_all(shared, "return bool") == [RewardResult(1.0)]


@pytest.mark.parametrize(
    ("completion", "error"),
    [
        ("raise", "KeyError: 'no such thing' (sample_rewards.py:"),
        ("exit", "SystemExit: 0"),
        ("return none", "returned NoneType None, not a number"),
        ("return text", "returned str '1.0', not a number"),
        ("return nan", "returned nan"),
        ("return inf", "returned inf"),
        ("return huge", "returned inf"),
    ],
)
def test_nonsense_is_a_failure_with_reward_zero(shared: RewardPool, completion: str, error: str) -> None:
    before, bad, after = score_all(shared, "number 3", completion, "number 4")
    assert (before, after) == (RewardResult(3.0), RewardResult(4.0))
    assert bad.failed and bad.reward == 0.0
    assert bad.error is not None and error in bad.error


@pytest.mark.parametrize("hang", ["hang", "hang_in_c"])
def test_a_hanging_reward_is_given_up_and_its_process_replaced(hang: str) -> None:
    with pool(timeout_s=1.5) as rewards:
        (first,) = score_all(rewards, "pid")
        start = time.monotonic()
        results = score_all(rewards, "number 1", hang, "number 2", "number 3")
        assert time.monotonic() - start < 20
        assert [r.reward for r in results] == [1.0, 0.0, 2.0, 3.0]
        assert [r.failed for r in results] == [False, True, False, False]
        assert results[1].error == "the reward function took longer than reward.timeout_s=1.5"
        (second,) = score_all(rewards, "pid")
        assert first.reward != second.reward
        assert gone(int(first.reward))


def test_what_a_hanging_reward_started_ends_with_it(tmp_path: Path) -> None:
    with pool(timeout_s=1.0) as rewards:
        (result,) = score_all(rewards, f"leave_child {tmp_path / 'pid'}")
    assert result.failed
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_reward_that_kills_its_process_fails_alone() -> None:
    with pool() as rewards:
        results = score_all(rewards, "number 1", "die", "number 2", "die", "number 3")
        assert [r.reward for r in results] == [1.0, 0.0, 2.0, 0.0, 3.0]
        assert results[1].error == "the reward process died 2 times on this completion"
        assert [r.failed for r in results] == [False, True, False, True, False]


@pytest.mark.parametrize("child", ["returns", "exits"])
def test_a_child_that_a_reward_leaves_behind_answers_nothing(child: str) -> None:
    with pool() as rewards:
        results = score_all(rewards, "number 5", f"fork {child}", "number 7", "number 8")
        assert [r.reward for r in results] == [5.0, 1.0, 7.0, 8.0]
        assert not any(r.failed for r in results)


@pytest.mark.parametrize("forged", ["2", "7"])
def test_a_forged_answer_spoils_none_of_other_calls(forged: str) -> None:
    """Neither of those before it, in the same batch, nor of those after it."""
    with pool() as rewards:
        around = score_all(rewards, "number 5", f"forge {forged}", "number 7", "number 8")
        assert [around[i] for i in (0, 2, 3)] == [RewardResult(5.0), RewardResult(7.0), RewardResult(8.0)]
        assert score_all(rewards, "number 9") == [RewardResult(9.0)]


def test_a_process_that_dies_of_something_else_loses_no_reward(tmp_path: Path) -> None:
    with pool() as rewards:
        assert score_all(rewards, f"die_once {tmp_path / 'mark'}", "number 2") == [RewardResult(1.0), RewardResult(2.0)]
        (process,) = score_all(rewards, "pid")
        os.kill(int(process.reward), 9)
        assert score_all(rewards, "number 3") == [RewardResult(3.0)]


def test_the_event_loop_goes_on_while_a_reward_computes(shared: RewardPool, tmp_path: Path) -> None:
    """The reward waits for what the event loop does once it has begun."""
    begun, go_on = tmp_path / "begun", tmp_path / "go_on"

    async def run() -> RewardResult:
        task = asyncio.ensure_future(shared.score(PROMPT, f"mark {begun} wait_for {go_on}", (), "stop"))
        while not begun.exists() and not task.done():
            await asyncio.sleep(0.01)
        go_on.touch()
        return await task

    assert asyncio.run(run()) == RewardResult(1.0)


def test_slow_rewards_spread_over_the_processes(tmp_path: Path) -> None:
    """Each waits until all four processes compute one."""
    with pool(num_workers=4) as rewards:
        results = score_all(rewards, *[f"meet {tmp_path} 4"] * 8)
    assert not any(r.failed for r in results)
    assert len({r.reward for r in results}) == 4


def test_a_cancelled_request_disturbs_nobody(shared: RewardPool) -> None:
    async def run() -> RewardResult:
        task = asyncio.ensure_future(shared.score(PROMPT, "sleep 0.2", (), "stop"))
        await asyncio.sleep(0.05)
        task.cancel()
        return await shared.score(PROMPT, "number 8", (), "stop")

    assert asyncio.run(run()) == RewardResult(8.0)


def test_pool_serves_event_loops_of_several_threads(shared: RewardPool) -> None:
    found: list[float] = []
    threads = [
        threading.Thread(target=lambda i=i: found.append(score_all(shared, f"number {i}")[0].reward)) for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(found) == [0.0, 1.0, 2.0, 3.0]


def test_process_inherits_no_libraries_and_no_threads(shared: RewardPool) -> None:
    modules, threads = score_all(shared, "modules", "threads")
    assert modules.reward == 0.0
    assert threads.reward == 1.0


def test_optional_arguments_reach_the_function_that_names_them() -> None:
    with pool("tests.rollout.sample_rewards:needs_finish_reason") as rewards:

        async def run() -> list[RewardResult]:
            return [await rewards.score(PROMPT, "", (1, 2, 3), reason) for reason in ("stop", "length")]

        assert [r.reward for r in asyncio.run(run())] == [3.0, 3.5]


def test_large_completions_pass(shared: RewardPool) -> None:
    padding = " " * (1 << 20)
    results = score_all(shared, *(f"number {i}{padding}" for i in range(6)))
    assert [r.reward for r in results] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_math_verify_runs_in_the_process() -> None:
    with pool("rollout.rewards.gsm8k:gsm8k_reward") as rewards:

        async def run(completion: str, answer: str) -> RewardResult:
            return await rewards.score(Prompt("0", (1,), answer), completion, (), "stop")

        assert asyncio.run(run("\\boxed{2\\sqrt{3}}", "\\sqrt{12}")) == RewardResult(1.0)
        result = asyncio.run(run("\\boxed{9^{9^{9}}}", "#### 72"))
        assert result.failed and "did not finish" in str(result.error)


def test_processes_end_with_a_worker_that_is_killed_even_in_a_hanging_reward(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    code = (
        "import asyncio\n"
        "from configs.schema import RewardConfig\n"
        "from tests.rollout.rewards.test_reward_pool import *\n"
        f"rewards = RewardPool(RewardConfig(function={OBEY!r}))\n"
        "print(int(score_all(rewards, 'pid')[0].reward), flush=True)\n"
        f"score_all(rewards, 'mark {begun} hang_in_c')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    worker = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    pid = int(worker.stdout.readline())
    assert until(begun.exists) and alive(pid)
    worker.kill()
    worker.wait()
    worker.stdout.close()
    assert gone(pid)


def test_a_bad_import_path_is_refused_before_anything_starts() -> None:
    before = threading.active_count()
    with pytest.raises(ConfigError, match=r"reward\.function=nowhere:f"):
        RewardPool(RewardConfig(function="nowhere:f"))
    assert threading.active_count() == before


def test_a_process_that_cannot_start_fails_its_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reward_process, "BOOT", "import sys; sys.exit(3)")
    with pool() as rewards:
        (result,) = score_all(rewards, "number 1")
        assert result == RewardResult(0.0, True, "a reward process ended at its start with exit code 3")


def test_close_ends_processes_and_threads_and_releases_who_waits(tmp_path: Path) -> None:
    num_threads = threading.active_count()
    rewards = RewardPool(RewardConfig(function=OBEY, num_workers=2))
    pids = {int(r.reward) for r in score_all(rewards, *[f"meet {tmp_path} 2"] * 2)}
    begun = tmp_path / "begun"

    async def run() -> list[Any]:
        hang = f"mark {begun} hang"
        waiting: list[Coroutine[Any, Any, RewardResult]] = [rewards.score(PROMPT, hang, (), "stop") for _ in range(5)]
        tasks = [asyncio.ensure_future(w) for w in waiting]
        while not begun.exists():
            await asyncio.sleep(0.01)
        start = time.monotonic()
        rewards.close()
        assert time.monotonic() - start < JOIN_TIMEOUT_S
        return await asyncio.gather(*tasks, return_exceptions=True)

    for result in asyncio.run(run()):
        assert isinstance(result, RuntimeError) and "closed" in str(result)
    assert len(pids) == 2 and all(gone(pid) for pid in pids)
    assert threading.active_count() == num_threads
    with pytest.raises(RuntimeError, match="the reward pool is closed"):
        asyncio.run(rewards.score(PROMPT, "number 1", (), "stop"))
    rewards.close()
