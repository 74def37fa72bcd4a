"""Symbol versions, on shared objects compiled here: an extension against an older library than it was built with."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rollout.environments.elf import ElfObject
from rollout.environments.libstdcxx import weakened
from rollout.environments.missing import MissingPiece

CC = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(CC is None, reason="needs a C compiler")

OLD = "OLD_1 { global: old_function; local: *; };"
NEW = OLD + " NEW_2 { global: empty_function; other_function; } OLD_1;"
LIBRARY = "int old_function(void) { return 40; } void empty_function(void) {} int other_function(void) { return 1; }"
EXTENSION = """
int old_function(void);
void empty_function(void);
int answer(void) { empty_function(); return old_function() + 2; }
"""


def build(source: str, target: Path, *options: str) -> Path:
    assert CC is not None
    subprocess.run(
        [CC, "-shared", "-fPIC", "-x", "c", "-", "-o", target, *options], input=source, text=True, check=True
    )
    return target


def library(folder: Path, script: str) -> Path:
    (folder / "versions.map").write_text(script)
    return build(
        LIBRARY, folder / "liblib.so", f"-Wl,--version-script={folder / 'versions.map'}", "-Wl,-soname,liblib.so"
    )


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    """Built against the new library, with only the old one beside it afterwards."""
    library(tmp_path, NEW)
    path = build(
        EXTENSION, tmp_path / "extension.so", f"-L{tmp_path}", "-Wl,--no-as-needed", "-llib", f"-Wl,-rpath,{tmp_path}"
    )
    library(tmp_path, OLD)
    return path


def load(path: Path, preload: Path | None = None) -> subprocess.CompletedProcess[str]:
    code = f"import ctypes; print(ctypes.CDLL({str(path)!r}).answer())"
    env = {"LD_PRELOAD": str(preload)} if preload else {}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)


def test_requirements_name_library_version_and_the_symbols_bound_to_it(extension: Path) -> None:
    elf = ElfObject.read(extension)
    ours = {need.version: need for need in elf.requirements() if need.soname == "liblib.so"}
    assert set(ours) == {"OLD_1", "NEW_2"} and not any(r.weak for r in ours.values())
    assert elf.symbols_bound_to(ours["OLD_1"]) == ["old_function"]
    assert elf.symbols_bound_to(ours["NEW_2"]) == ["empty_function"]


def test_defined_versions_are_those_of_the_version_script(tmp_path: Path) -> None:
    assert {"OLD_1", "NEW_2"} <= ElfObject.read(library(tmp_path, NEW)).defined_versions()
    old = ElfObject.read(library(tmp_path, OLD)).defined_versions()
    assert "OLD_1" in old and "NEW_2" not in old


def test_a_weak_requirement_and_a_preloaded_function_make_it_load(extension: Path, tmp_path: Path) -> None:
    assert "NEW_2" in load(extension).stderr, "the extension should not load as it is"
    elf = ElfObject.read(extension)
    missing = [r for r in elf.requirements() if r.version == "NEW_2"]
    patched = tmp_path / "patched.so"
    patched.write_bytes(elf.with_weak(missing[0]).data)
    stub = build("void empty_function(void) {}", tmp_path / "stub.so")
    assert load(patched, stub).stdout.strip() == "42"
    assert len(patched.read_bytes()) == len(extension.read_bytes())
    assert [r.weak for r in ElfObject.read(patched).requirements() if r.version == "NEW_2"] == [True]


def test_a_version_of_which_more_is_used_is_named_and_not_patched(extension: Path) -> None:
    elf = ElfObject.read(extension)
    missing = [r for r in elf.requirements() if r.version == "NEW_2"]
    with pytest.raises(MissingPiece, match=r"NEW_2 .* for empty_function; use a system with a newer"):
        weakened(elf, missing, "extension.so")


def test_other_files_are_refused() -> None:
    with pytest.raises(ValueError, match="not a 64-bit"):
        ElfObject(b"MZ" + bytes(100))
