"""A lost trainer starts the run again, as often as allowed and for no other reason."""

import pytest

import pipeline.run.loop
from configs.schema import Config
from pipeline.errors import RunFailed, TrainerLost
from pipeline.run import launch


@pytest.fixture
def attempts(monkeypatch):
    made = []
    monkeypatch.setattr(launch, "check", lambda config: None)
    monkeypatch.setattr(pipeline.run.loop, "train", lambda config: _answer(made))
    made.append([])
    return made


def _answer(made):
    answer = made.pop(0)
    if isinstance(answer, Exception):
        raise answer
    return answer


def test_a_lost_trainer_is_started_again(attempts, capsys):
    attempts[:] = [TrainerLost("a trainer rank died; step 3"), TrainerLost("again"), "summary"]
    assert launch.launch(Config(), max_restarts=2) == "summary"
    assert "a trainer rank died; step 3\nrestart 1 of 2" in capsys.readouterr().err


def test_the_limit_holds(attempts):
    attempts[:] = [TrainerLost("first"), TrainerLost("second"), "never reached"]
    with pytest.raises(TrainerLost, match="second"):
        launch.launch(Config(), max_restarts=1)


def test_other_failures_are_not_repeated(attempts):
    attempts[:] = [RunFailed("rewards failed"), "never reached"]
    with pytest.raises(RunFailed, match="rewards failed"):
        launch.launch(Config(), max_restarts=3)
