"""Libraries that an engine needs in LD_PRELOAD before it starts."""

import shutil
import subprocess
from pathlib import Path

from rollout.environments.location import EnvironmentFolder
from rollout.environments.missing import MissingPiece
from rollout.environments.specs import EnvironmentSpec

OPENMP = "libiomp5.so"
TCMALLOC_PATTERNS = ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4")
TCMALLOC_PACKAGE = "libtcmalloc-minimal4"
TCMALLOC_PACKAGES = "Debian and Ubuntu: `apt-get install libtcmalloc-minimal4`, Fedora: `dnf install gperftools-libs`"
DOWNLOAD_TIMEOUT_S = 120
_RECREATE = "create the environment again with --recreate"


def preloads(spec: EnvironmentSpec, folder: EnvironmentFolder) -> list[Path]:
    """Paths for LD_PRELOAD.

    Raises:
        MissingPiece: a library is not on this system and could not be fetched.
    """
    found: list[Path] = []
    if spec.preload_tcmalloc:
        found.append(_tcmalloc(spec, folder))
    if spec.preload_openmp:
        found.append(_openmp(spec, folder))
    return found


def _openmp(spec: EnvironmentSpec, folder: EnvironmentFolder) -> Path:
    path = folder.lib / OPENMP
    if not path.exists():
        raise MissingPiece(f"{spec.name} needs {OPENMP}, which its package intel-openmp should have brought", _RECREATE)
    return path


def _tcmalloc(spec: EnvironmentSpec, folder: EnvironmentFolder) -> Path:
    path = system_library(TCMALLOC_PATTERNS) or _below(folder.root) or _fetch(folder.root)
    if path is None:
        raise MissingPiece(
            f"{spec.name} on a CPU refuses to start without tcmalloc", f"install it ({TCMALLOC_PACKAGES})"
        )
    return path


def system_library(names: tuple[str, ...]) -> Path | None:
    """Path of the first of `names` that the dynamic linker's cache knows."""
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        listing = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return parse_cache(listing, names)


def parse_cache(listing: str, names: tuple[str, ...]) -> Path | None:
    """Path of the first of `names` in the output of `ldconfig -p` (lines `NAME (KIND) => PATH`)."""
    paths: dict[str, Path] = {}
    for line in listing.splitlines():
        name, arrow, path = line.partition(" => ")
        if arrow:
            paths.setdefault(name.split()[0], Path(path.strip()))
    return next((paths[name] for name in names if name in paths), None)


def _below(root: Path) -> Path | None:
    return next((p for name in TCMALLOC_PATTERNS for p in sorted((root / "system").rglob(name))), None)


def _fetch(root: Path) -> Path | None:
    """Unpack Debian's package below the environment; needs no root, only apt's package lists."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return None
    target = root / "system"
    target.mkdir(parents=True, exist_ok=True)
    try:
        _quietly(["apt-get", "download", TCMALLOC_PACKAGE], target)
        for package in target.glob(f"{TCMALLOC_PACKAGE}_*.deb"):
            _quietly(["dpkg-deb", "-x", package.name, "."], target)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
    return _below(root)


def _quietly(command: list[str], cwd: Path) -> None:
    subprocess.run(command, cwd=cwd, check=True, capture_output=True, timeout=DOWNLOAD_TIMEOUT_S)
