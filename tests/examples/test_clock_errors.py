"""The table of the approximation's errors by lag and clock, on numbers worked out by hand."""

import math

import pytest
import torch

from actor.trainer import Clock
from examples.experimental.prox_approx.clock_errors import BEHAVIOR, ErrorsByLag, header, to_markdown
from exchange.types import Group, Trajectory
from pipeline.records.trajectories import read_groups, write_trajectories


def _errors(minibatch=1, mask=(True, True, True)):
    errors = ErrorsByLag()
    errors.add(
        behavior=torch.tensor([-2.0, -2.0, -1.0]),
        current=torch.tensor([-1.0, -1.0, -1.0]),
        truth=torch.tensor([-1.5, -1.5, -1.0]),
        versions=torch.tensor([3, 5, 5]),
        mask=torch.tensor(mask),
        clock=Clock(version=5, minibatch=minibatch, num_minibatches=2),
    )
    return errors


def test_errors_by_lag_and_clock():
    errors = _errors()
    assert dict(errors.counts) == {0: 2, 2: 1}
    # Lag 2 in minibatch 1 of 2: α is 2/2.5 (minibatch), 2/3 (step), 1/2 (lagged) of the way from −2 to −1.
    assert errors.mean("loglinear", "minibatch", 2) == pytest.approx(0.3)
    assert errors.mean("loglinear", "step", 2) == pytest.approx(2 / 3 - 0.5)
    assert errors.mean("loglinear", "lagged", 2) == pytest.approx(0.0, abs=1e-7)
    mixture = math.log(0.2 * math.exp(-2) + 0.8 * math.exp(-1))
    assert errors.mean("linear", "minibatch", 2) == pytest.approx(mixture + 1.5, abs=1e-6)
    assert errors.mean(BEHAVIOR, "", 2) == pytest.approx(0.5)
    # Lag 0: every clock stays at the behavior policy, whose error is 0.5 for one of the two tokens.
    for clock in ("minibatch", "step", "lagged"):
        assert errors.mean("loglinear", clock, 0) == pytest.approx(0.25)


def test_the_first_minibatch_is_exact_under_the_minibatch_clock_only():
    errors = ErrorsByLag()
    current = torch.tensor([-1.0])
    errors.add(torch.tensor([-2.0]), current, current, torch.tensor([3]), torch.tensor([True]), Clock(5, 0, 2))
    assert errors.mean("loglinear", "minibatch", 2) == 0.0
    assert errors.mean("loglinear", "lagged", 2) == pytest.approx(0.5)


def test_masked_tokens_are_not_measured():
    errors = _errors(mask=(False, True, True))
    assert dict(errors.counts) == {0: 2}


def test_markdown_has_a_row_for_every_lag():
    lines = to_markdown(_errors()).splitlines()
    assert [line.split("|")[1].strip() for line in lines] == ["lag", "---:", "0", "2"]
    assert len(lines[2].split("|")) == len(header()) + 2


def test_written_trajectories_are_read_back_in_order(tmp_path):
    def trajectory(reward, versions):
        n = len(versions)
        return Trajectory((1, 2), tuple(range(n)), (-0.5,) * n, versions, (1,) * n, reward, "stop")

    groups = [
        Group("g7", "p1", 0, 1, (trajectory(1.0, (3, 4)), trajectory(0.0, (4,)))),
        Group("g2", "p9", 1, 0, (trajectory(0.5, (2, 2, 3)),)),
    ]
    assert read_groups(write_trajectories(tmp_path, 5, groups)) == groups
