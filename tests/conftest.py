"""What holds for every test: time limits and GPUs."""

from pathlib import Path

import pytest

ENGINE_TIMEOUT_S = 600  # an engine takes a minute to start where nothing else runs, and several on a busy machine
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("engine") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(ENGINE_TIMEOUT_S))
        if item.get_closest_marker("gpu") and not NVIDIA_DRIVER.exists():
            item.add_marker(pytest.mark.skip(reason="no GPU on this machine"))
