"""The work-around for extensions built with GCC 13."""

import ctypes
import shutil
from pathlib import Path

import pytest

from rollout.environments import libstdcxx
from rollout.environments.elf import Requirement
from rollout.environments.libstdcxx import (
    EMPTY_FUNCTION,
    compile_stub,
    missing_requirements,
    system_versions,
    work_around,
)
from rollout.environments.missing import MissingPiece


class Extension:
    """The part of an ELF object that the decision looks at."""

    def __init__(self, *requirements: Requirement) -> None:
        self._requirements = requirements

    def requirements(self) -> list[Requirement]:
        return list(self._requirements)


def test_only_strong_requirements_on_libstdcxx_that_the_system_lacks_are_missing() -> None:
    lacking = Requirement("libstdc++.so.6", "GLIBCXX_3.4.32", False, 2, 0)
    extension = Extension(
        Requirement("libstdc++.so.6", "GLIBCXX_3.4.30", False, 3, 0),
        Requirement("libstdc++.so.6", "GLIBCXX_3.4.31", True, 4, 0),
        Requirement("libc.so.6", "GLIBC_9.9", False, 5, 0),
        lacking,
    )
    assert missing_requirements(extension, {"GLIBCXX_3.4.30"}) == [lacking]  # type: ignore[arg-type]


def test_the_versions_of_the_loaded_libstdcxx_are_read() -> None:
    versions = system_versions()
    assert {"GLIBCXX_3.4", "GLIBCXX_3.4.9"} <= versions


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_stub_holds_the_one_function(tmp_path: Path) -> None:
    assert hasattr(ctypes.CDLL(str(compile_stub(tmp_path))), EMPTY_FUNCTION)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_nothing_is_preloaded_where_nothing_is_missing(tmp_path: Path) -> None:
    assert work_around([compile_stub(tmp_path)], tmp_path) == []


def test_without_a_compiler_the_sentence_names_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libstdcxx.shutil, "which", lambda name: None)
    with pytest.raises(MissingPiece, match=r"no C compiler; install one .*apt-get install gcc"):
        compile_stub(tmp_path)
