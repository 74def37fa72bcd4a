"""Run a vLLM extension built for a newer libstdc++ than this system has, where that is sound.

GCC 13 made every object that includes <iostream> ask for the empty function `std::ios_base_library_init()` under
the new version GLIBCXX_3.4.32. Where nothing else of that version is used, the requirement can be made weak and the
function supplied by a preloaded library of one function. Debian 13 and Ubuntu 24.04 need none of this.
"""

import ctypes
import shutil
import subprocess
from pathlib import Path

from rollout.environments.elf import ElfObject, Requirement
from rollout.environments.missing import MissingPiece

LIBRARY = "libstdc++.so.6"
EMPTY_FUNCTION = "_ZSt21ios_base_library_initv"  # std::ios_base_library_init()
STUB_NAME = "libproxrl_ios_init.so"
STUB_SOURCE = f"void {EMPTY_FUNCTION}(void) {{}}\n"
COMPILERS = ("cc", "gcc", "clang")


def system_versions() -> set[str]:
    """Versions that the libstdc++ which this process would load defines."""
    ctypes.CDLL(LIBRARY)
    maps = Path("/proc/self/maps").read_text().splitlines()
    path = next(line.split(maxsplit=5)[5] for line in maps if f"/{LIBRARY}" in line)
    return ElfObject.read(Path(path)).defined_versions()


def missing_requirements(extension: ElfObject, available: set[str]) -> list[Requirement]:
    """Strong requirements on libstdc++ that `available` does not meet."""
    return [
        needed
        for needed in extension.requirements()
        if needed.soname == LIBRARY and not needed.weak and needed.version not in available
    ]


def weakened(extension: ElfObject, missing: list[Requirement], name: str) -> ElfObject:
    """`extension` with the missing requirements made weak.

    Raises:
        MissingPiece: it uses more of a missing version than the one empty function.
    """
    for requirement in missing:
        used = set(extension.symbols_bound_to(requirement)) - {EMPTY_FUNCTION}
        if used:
            raise MissingPiece(
                f"{name} needs {requirement.version} of {LIBRARY} for {', '.join(sorted(used)[:3])}",
                "use a system with a newer libstdc++ (Debian 13, Ubuntu 24.04 or later)",
            )
        extension = extension.with_weak(requirement)
    return extension


def compile_stub(folder: Path) -> Path:
    """Compile the one-function library into `folder`.

    Raises:
        MissingPiece: there is no C compiler.
    """
    compiler = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if compiler is None:
        raise MissingPiece(
            "this engine needs a small library compiled, and there is no C compiler",
            "install one (Debian and Ubuntu: `apt-get install gcc`) and run this again",
        )
    target = folder / STUB_NAME
    command = [compiler, "-shared", "-fPIC", "-o", str(target), "-x", "c", "-"]
    subprocess.run(command, input=STUB_SOURCE, text=True, check=True, capture_output=True)
    return target


def work_around(extensions: list[Path], folder: Path) -> list[Path]:
    """Patch those extensions that need it; returns the libraries to preload (none where nothing was needed)."""
    available = system_versions()
    patched = False
    for path in extensions:
        extension = ElfObject.read(path)
        missing = missing_requirements(extension, available)
        already = any(EMPTY_FUNCTION in extension.symbols_bound_to(r) for r in extension.requirements() if r.weak)
        if missing:
            # A copy, not a write in place: the installer may have hard-linked the file from its cache.
            aside = path.with_name(path.name + ".partial")
            aside.write_bytes(weakened(extension, missing, path.name).data)
            aside.chmod(path.stat().st_mode)
            aside.replace(path)
        patched |= bool(missing) or already
    return [compile_stub(folder)] if patched else []
