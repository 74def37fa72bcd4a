"""Ray is started by a run, and by nothing else."""

import pytest
import ray
from ray._private import auto_init_hook

from configs.schema import Config
from pipeline.placement import start_ray


def test_a_call_after_the_end_of_ray_does_not_start_another(monkeypatch):
    started = []
    monkeypatch.setattr(auto_init_hook, "enable_auto_connect", True)
    monkeypatch.setattr(ray, "init", lambda **settings: started.append(settings))
    start_ray(Config())
    with pytest.raises(ray.exceptions.RaySystemError, match="has not been started"):
        ray.get([])
    assert len(started) == 1
