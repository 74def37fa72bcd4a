"""What a user sees of a run, on a terminal and in a file."""

import io

import pytest
from rich.console import Console

from pipeline.run.console import RunConsole

ROW = {"step": 3, "rl/reward": 0.5, "rl/lag": 1.0, "ppo_actor/update/clip_ratio/avg": 0.0123}


def _shown(terminal, use):
    out = io.StringIO()
    rich = Console(
        file=out, force_terminal=terminal, width=200, color_system=None, markup=False, highlight=False, soft_wrap=True
    )
    with RunConsole("job", 10, rich) as console:
        use(console)
    return out.getvalue()


def test_brackets_in_what_a_user_named_are_no_markup(capsys):
    with RunConsole("run [red]", 10) as console:
        console.note("prompt [/bold] of data[0].jsonl")
    assert capsys.readouterr().out == "[run [red]] prompt [/bold] of data[0].jsonl\n"


def test_a_step_is_one_plain_line_outside_a_terminal():
    text = _shown(False, lambda c: (c.begin_steps(0), c.step(ROW)))
    assert text.splitlines()[0] == "[job] training"
    assert text.splitlines()[1].startswith("[job] step 3/10 reward 0.500 eval – lag 1.00 |Δ|lag0 – clip 0.012 ")


def test_an_alarm_is_a_line_when_it_appears_and_again_after_it_was_over():
    def use(console):
        for step, found in enumerate([["too far"], ["too far"], [], ["too far", "slow"]]):
            console.alarms(step, found)

    lines = _shown(False, use).splitlines()
    assert lines == [f"[job] alarm at step {s}: {w}" for s, w in [(0, "too far"), (3, "too far"), (3, "slow")]]


def test_a_terminal_shows_workers_alarms_and_notes_until_they_are_over():
    def use(console):
        console.workers(lambda: ["worker 0: version 3, 4 groups in flight", "worker 1: starting (restart 1)"])
        console.step(ROW)
        console.alarms(3, ["the policy drifts"])
        console.note("checkpoint somewhere")

    text = _shown(True, use)
    for part in ("worker 1: starting (restart 1)", "alarm: the policy drifts", "checkpoint somewhere", "3/10"):
        assert part in text
    assert "alarm:" not in _shown(True, lambda c: (c.alarms(1, ["gone"]), c.alarms(2, [])))


def test_only_the_newest_notes_stay():
    text = _shown(True, lambda c: [c.note(f"note {i}") for i in range(8)])
    assert "note 2" not in text and "note 3" in text and "note 7" in text


@pytest.mark.parametrize(
    ("kl", "said"), [(0.005, "0.005 too slow"), (0.05, "0.050 healthy"), (0.15, "0.150 watch"), (0.3, "0.300 drifting")]
)
def test_the_kl_against_the_reference_comes_with_what_it_says(kl, said):
    assert f"KL {said}" in _shown(False, lambda c: c.step(ROW | {"actor/kl_k2": kl}))
    assert "KL" not in _shown(False, lambda c: c.step(ROW))
