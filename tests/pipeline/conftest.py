"""What the tests of whole run folders share."""

from pathlib import Path

import pytest

from tests.faults.run_process import make_inputs


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A small untrained model and 16 prompts."""
    return make_inputs(tmp_path_factory.mktemp("inputs"), num_prompts=16)
