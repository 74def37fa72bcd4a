"""Create an engine's environment: install, work around what the system lacks, check, stamp."""

import fcntl
import json
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rollout.environments.libstdcxx import work_around
from rollout.environments.location import EnvironmentFolder, engines_root
from rollout.environments.missing import MissingPiece
from rollout.environments.preload import preloads
from rollout.environments.process import process_variables, run_python
from rollout.environments.specs import EnvironmentSpec, python_minor
from rollout.environments.stamp import Stamp, why_unusable, write_stamp

CHECK_TIMEOUT_S = 600.0
DISK_GIB = 10.0  # what the larger environment takes, with room to unpack
SHOWN_LINES = 15  # of a failed command's output

Say = Callable[[str], None]


class CreationFailed(RuntimeError):
    """A step of creating an environment failed; the message holds the end of its output."""


def create(spec: EnvironmentSpec, say: Say, recreate: bool = False) -> EnvironmentFolder:
    """Make the environment ready; does nothing where it is ready already.

    Raises:
        MissingPiece: the system lacks something that only its user can install.
        CreationFailed: a package could not be installed, or the engine did not generate.
    """
    folder = EnvironmentFolder.of(spec)
    folder.root.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        reason = why_unusable(spec, folder)
        if reason is None and not recreate:
            say(f"{spec.key} is ready in {folder.root}")
            return folder
        _require_disk(folder.root.parent)
        shutil.rmtree(folder.root, ignore_errors=True)
        _install(spec, folder, say)
        say("looking for what this system lacks")
        extensions = sorted((folder.site_packages / "vllm").glob("*.so"))
        libraries = [str(p) for p in (*preloads(spec, folder), *work_around(extensions, folder.lib))]
        say("generating one token")
        report = check(spec, folder, libraries)
        write_stamp(folder, _stamp(spec, libraries, report))
    say(f"{spec.key} is ready in {folder.root}")
    return folder


def check(spec: EnvironmentSpec, folder: EnvironmentFolder, preload: list[str]) -> dict[str, object]:
    """Generate one token there; returns versions, token ids and logprob.

    Raises:
        CreationFailed: it did not generate.
    """
    variables = process_variables(spec, folder, preload)
    with tempfile.TemporaryDirectory(prefix="proxrl-engine-") as model:
        try:
            done = run_python(folder, variables, ["-m", "rollout.environments.one_token", model], CHECK_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise CreationFailed(f"{spec.key} generated no token within {CHECK_TIMEOUT_S:g} s") from None
    report = _last_json(done.stdout)
    if done.returncode != 0 or report is None:
        raise CreationFailed(f"{spec.key} generated no token:\n{_end(done.stdout + done.stderr)}")
    return report


def _stamp(spec: EnvironmentSpec, libraries: list[str], report: dict[str, object]) -> Stamp:
    versions, token_ids = report["versions"], report["token_ids"]
    assert isinstance(versions, dict) and isinstance(token_ids, list)
    return Stamp(
        name=spec.name,
        device=spec.device,
        python=python_minor(),
        requirements=list(spec.requirements),
        overrides=list(spec.overrides),
        preload=libraries,
        versions=versions,
        checked_token_ids=token_ids,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _install(spec: EnvironmentSpec, folder: EnvironmentFolder, say: Say) -> None:
    uv = _uv(say)
    say(f"installing {spec.package} with {', '.join(spec.pins)} (several GB)")
    # The interpreter behind this environment: Ray joins processes of one Python minor version only.
    _run([uv, "venv", "--quiet", "--python", str(Path(sys.executable).resolve()), str(folder.root)], "uv venv")
    overrides = folder.root / "overrides.txt"
    overrides.write_text("\n".join(spec.overrides) + "\n")
    command = [uv, "pip", "install", "--quiet", "--python", str(folder.python), "--override", str(overrides)]
    _run([*command, *spec.requirements], "uv pip install")


def _uv(say: Say) -> str:
    """uv, which can replace the pins of other people's packages; pip cannot."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found:
        return found
    tool = engines_root() / "uv"
    if not (tool / "bin" / "uv").exists():
        say("installing uv")
        venv.create(tool, with_pip=True)
        _run([str(tool / "bin" / "pip"), "install", "--quiet", "uv"], "pip install uv")
    return str(tool / "bin" / "uv")


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise CreationFailed(f"`{what}` failed:\n{_end(done.stdout + done.stderr)}")


def _require_disk(folder: Path) -> None:
    free = shutil.disk_usage(folder).free / 2**30
    if free < DISK_GIB:
        raise MissingPiece(
            f"an engine's environment takes up to {DISK_GIB:g} GiB, and {folder} has {free:.1f} GiB free",
            "make room there or set PROXRL_ENGINES to another folder",
        )


@contextmanager
def _alone(folder: EnvironmentFolder) -> Iterator[None]:
    with open(folder.lock, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _last_json(output: str) -> dict[str, object] | None:
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            return found if isinstance(found, dict) else None
    return None


def _end(output: str) -> str:
    return "\n".join(output.strip().splitlines()[-SHOWN_LINES:])
