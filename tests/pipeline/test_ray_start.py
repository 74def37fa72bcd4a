"""Ray is started by a run, and by nothing else."""

import signal

import pytest
import ray
from ray._private import auto_init_hook, ray_constants

from configs.schema import Config
from pipeline.failures import RunFailed
from pipeline.placement import start_ray


def test_a_call_after_the_end_of_ray_does_not_start_another(monkeypatch):
    started = []
    monkeypatch.setattr(auto_init_hook, "enable_auto_connect", True)
    monkeypatch.setattr(ray, "init", lambda **settings: started.append(settings))
    start_ray(Config())
    with pytest.raises(ray.exceptions.RaySystemError, match="has not been started"):
        ray.get([])
    assert len(started) == 1


def test_sigterm_does_after_the_start_of_ray_what_it_did_before(monkeypatch):
    """Ray's own handlers leave with code 15, or with a dump and an abort."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(ray_constants, "RAY_DISABLE_FAILURE_SIGNAL_HANDLER", False)
    monkeypatch.setattr(ray, "init", lambda **settings: signal.signal(signal.SIGTERM, lambda *_: None))
    try:
        start_ray(Config())
        assert signal.getsignal(signal.SIGTERM) is before
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
