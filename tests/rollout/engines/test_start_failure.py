"""The reason out of what vLLM's processes printed, in a few words; the user's choice of plugins keeps ours."""

import os

import pytest

from rollout.engines.start_failure import root_cause, why_not_started
from rollout.environments.variables import load_our_plugin
from rollout.errors import MAX_CHARACTERS

POINTER = RuntimeError("Engine core initialization failed. See root cause above. Failed core proc(s): {}")
LOGGED = "(EngineCore pid=15801) ERROR 12-07 11:27:13 [core.py:1510] "
LOG = f"""
(EngineCore pid=15801) INFO 12-07 11:27:12 [default_loader.py:501] Loading weights took 0.01 seconds
{LOGGED}EngineCore failed to start.
{LOGGED}Traceback (most recent call last):
{LOGGED}  File "core.py", line 1482, in run_engine_core
{LOGGED}    raise ValueError("in code: not the message")
{LOGGED}safetensors_rust.SafetensorError: header too large
Process EngineCore:
Traceback (most recent call last):
  File "core.py", line 1514, in run_engine_core
safetensors_rust.SafetensorError: header too large
Traceback (most recent call last):
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}
(MainProcess pid=15539) INFO 12-07 11:27:15 [utils.py:628] [shutdown] Process manager: send sigterm
"""


@pytest.mark.parametrize(
    ("error", "output", "told"),
    [
        (POINTER, LOG, "safetensors_rust.SafetensorError: header too large"),
        (POINTER, "nothing of use", f"RuntimeError: {POINTER}"),
        (OSError("no such file"), LOG, "OSError: no such file"),  # it says itself what happened
    ],
)
def test_the_reason(error, output, told):
    assert why_not_started(error, output) == told


def test_it_stays_short():
    told = why_not_started(RuntimeError("a\nb " + "long " * 100))
    assert told.startswith("RuntimeError: a b long") and told.endswith("…") and len(told) == MAX_CHARACTERS


def test_code_that_raises_is_no_error_line():
    assert root_cause("    raise ValueError: x\n  File ValueError: y") is None


@pytest.mark.parametrize(
    ("chosen", "after"),
    [
        (None, None),
        ("", "proxrl_weight_receiver"),
        ("mine", "mine,proxrl_weight_receiver"),
        ("proxrl_weight_receiver,mine", "proxrl_weight_receiver,mine"),
    ],
)
def test_vllm_loads_our_plugin_whatever_the_user_chose(monkeypatch, chosen, after):
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)
    if chosen is not None:
        monkeypatch.setenv("VLLM_PLUGINS", chosen)
    load_our_plugin()
    assert os.environ.get("VLLM_PLUGINS") == after
