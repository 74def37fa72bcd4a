"""The names kept in configs are those of the engine that is installed."""

import pytest

from configs.checks.engine_arguments import ENGINE_ARGUMENTS
from configs.checks.pinned import AGREEMENT, RESERVED


@pytest.mark.engine
def test_names_are_those_of_the_installed_engine() -> None:
    import dataclasses

    from vllm.engine.arg_utils import AsyncEngineArgs

    installed = {field.name for field in dataclasses.fields(AsyncEngineArgs) if not field.name.startswith("_")}
    assert set(ENGINE_ARGUMENTS) == installed
    assert set(AGREEMENT) <= installed
    sampling = {"temperature", "top_p", "top_k", "max_tokens", "n"}  # often written among the engine's by mistake
    assert set(RESERVED) - sampling <= installed
