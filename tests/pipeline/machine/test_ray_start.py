"""Ray is started by a run, and by nothing else."""

import signal
import socket

import pytest
import ray
from ray._private import auto_init_hook, ray_constants
from ray._private import utils as ray_utils

from configs.errors import ConfigError
from configs.schema import Config, SchedulerConfig
from pipeline.errors import RunFailed
from pipeline.machine.ray_cluster import start_ray


def test_a_call_after_the_end_of_ray_does_not_start_another(monkeypatch):
    started = []
    monkeypatch.setattr(auto_init_hook, "enable_auto_connect", True)
    monkeypatch.setattr(ray, "init", lambda **settings: started.append(settings))
    start_ray(Config())
    with pytest.raises(ray.exceptions.RaySystemError, match="has not been started"):
        ray.get([])
    assert len(started) == 1


def test_sigterm_does_while_ray_starts_and_afterwards_what_it_did_before(monkeypatch):
    """Ray's own handlers leave with code 15, or with a dump and an abort."""
    before = signal.getsignal(signal.SIGTERM)
    during = []

    def init(**settings):
        ray_utils.set_sigterm_handler(lambda *_: None)  # as ray.init does
        during.append(signal.getsignal(signal.SIGTERM))

    monkeypatch.setattr(ray_constants, "RAY_DISABLE_FAILURE_SIGNAL_HANDLER", False)
    monkeypatch.setattr(ray_utils, "set_sigterm_handler", ray_utils.set_sigterm_handler)
    monkeypatch.setattr(ray, "init", init)
    try:
        start_ray(Config())
        assert [*during, signal.getsignal(signal.SIGTERM)] == [before, before]
        assert ray_constants.RAY_DISABLE_FAILURE_SIGNAL_HANDLER is True
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_start_that_times_out_is_tried_once_more(monkeypatch):
    """Ray gives its processes 30 s, which a busy machine may exceed."""
    tries = []

    def slow(**settings):
        tries.append(settings)
        if len(tries) < fails:
            raise Exception("The current node timed out during startup. This could happen because …")

    monkeypatch.setattr(ray, "init", slow)
    fails = 2
    start_ray(Config())
    assert len(tries) == 2
    fails = 9
    with pytest.raises(RunFailed, match="Ray did not start in time, twice: this machine is too busy"):
        start_ray(Config())
    assert len(tries) == 4


@pytest.fixture
def nobody():
    """An address at which nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def test_an_address_where_nobody_answers_is_refused_at_once(monkeypatch, nobody):
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray would try for minutes"))
    for address in (nobody, "127.0.0.1:99999", "[::1]:1", "a..b:6379", "nowhere.invalid:6379"):
        with pytest.raises(ConfigError) as refusal:
            start_ray(Config(scheduler=SchedulerConfig(type="ray", address=address)))
        told = f"scheduler.address={address} does not lead to a Ray cluster; start one with"
        assert str(refusal.value).startswith(told)


@pytest.mark.parametrize("address", [None, "auto"])
def test_without_an_address_the_cluster_is_the_environments(monkeypatch, nobody, address):
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray would try for minutes"))
    monkeypatch.setenv("RAY_ADDRESS", nobody)
    with pytest.raises(ConfigError, match=rf"scheduler\.address={address or 'null'} does not lead to a Ray cluster"):
        start_ray(Config(scheduler=SchedulerConfig(type="ray", address=address)))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionError("no node"), "does not know this machine; run `ray start --address .*` here"),
        (ray.exceptions.AuthenticationError("none"), r"asks for another token; copy ~/\.ray/auth_token"),
        (
            RuntimeError("Version mismatch: Ray: 1\n    Python: 2"),
            r"other versions \(Version mismatch: Ray: 1 Python: 2\)",
        ),
    ],
)
def test_a_cluster_that_refuses_us_is_one_sentence(monkeypatch, error, words):
    def refuse(**settings):
        raise error

    monkeypatch.setattr(ray, "init", refuse)
    with socket.socket() as somebody:
        somebody.bind(("0.0.0.0", 0))  # an address of this machine's, which Ray puts in place of 127.0.0.1
        somebody.listen()
        address = f"127.0.0.1:{somebody.getsockname()[1]}"
        with pytest.raises(ConfigError, match=rf"scheduler\.address={address} is a cluster .*{words}"):
            start_ray(Config(scheduler=SchedulerConfig(type="ray", address=address)))
