"""Create or reuse `.venv` with everything that training and tests on a CPU need; standard library only.

    python3 scripts/setup_env.py

Needs Python 3.11 (or 3.12), g++ (DeepSpeed compiles its communication op at first use) and a package index that pip
can reach. A second call returns at once unless `pyproject.toml`, the constraints or this file changed.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
STAMP = VENV / "proxrl-setup.sha256"
LOG = VENV / "proxrl-setup.log"
CONSTRAINTS = ROOT / "scripts" / "constraints-cpu.txt"
INTERPRETERS = ("python3.11", "python3.12", "python3")
SUPPORTED = ((3, 11), (3, 12))
FREE_GB = 6  # the environment takes 3.5 GB, unpacking and pip's cache some more

# The CPU build of vLLM needs exactly this build of torch, which many package indexes do not carry.
TORCH = "torch==2.13.0+cpu"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
# vLLM asks for these, text-only training does not, and builds of them that do not match the CPU torch break
# `import transformers`.
UNWANTED = ("torchvision", "torchaudio", "torchcodec")

HEARTBEAT_S = 15
PROGRESS = ("Collecting", "Processing", "Building", "Installing", "Successfully", "Found existing")
UNREACHABLE = ("NewConnectionError", "Temporary failure in name resolution", "ProxyError", "ConnectTimeoutError")


class SetupError(Exception):
    """One sentence for the user."""


def main() -> None:
    digest = fingerprint()
    if STAMP.exists() and STAMP.read_text() == digest and venv_python_works():
        print("environment: .venv is up to date", flush=True)
        return
    started = time.monotonic()
    check_machine()
    create_venv()
    install_torch()
    print("environment: installing vLLM, DeepSpeed, Ray and the rest (3 to 4 minutes on two cores)", flush=True)
    pip("install", "--constraint", str(CONSTRAINTS), "--editable", ".[cpu,dev]")
    pip("uninstall", "--yes", *UNWANTED)
    check_imports()
    STAMP.write_text(digest)
    print(f"environment: .venv is ready after {time.monotonic() - started:.0f} s", flush=True)


def fingerprint() -> str:
    """Hash of everything that decides what is installed, and of where: an environment cannot be moved."""
    parts = [path.read_bytes() for path in (ROOT / "pyproject.toml", CONSTRAINTS, Path(__file__))]
    return hashlib.sha256(b"\0".join([*parts, str(VENV).encode()])).hexdigest()


def venv_python_works() -> bool:
    """Whether `.venv` has an interpreter of a supported version."""
    return version_of(str(VENV / "bin" / "python")) in SUPPORTED


def version_of(interpreter: str) -> "tuple[int, int] | None":
    """(major, minor) of an interpreter, or None where it does not run; a version manager's shim may exist and fail."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        run = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if run.returncode != 0:
        return None
    major, minor = run.stdout.split()
    return int(major), int(minor)


def find_python() -> str:
    """An interpreter of a supported version.

    Raises:
        SetupError: there is none.
    """
    for name in (*INTERPRETERS, sys.executable):
        path = shutil.which(name)
        inside = path and Path(path).is_relative_to(VENV)  # an activated .venv that is about to be replaced
        if path and not inside and version_of(path) in SUPPORTED:
            return path
    raise SetupError("Python 3.11 was not found; install python3.11 with its venv module and call this again")


def check_machine() -> None:
    """Refuse early what would fail late.

    Raises:
        SetupError: no compiler, or too little disk space.
    """
    if shutil.which("g++") is None:
        raise SetupError("g++ was not found, and DeepSpeed compiles with it at first use; install g++ (Debian: g++)")
    free_gb = shutil.disk_usage(ROOT).free / 1e9
    if free_gb < FREE_GB and not VENV.exists():
        raise SetupError(f"only {free_gb:.1f} GB are free in {ROOT}; the environment needs about {FREE_GB} GB")


def create_venv() -> None:
    """Make `.venv`, unless a working one exists.

    Raises:
        SetupError: the venv module is missing.
    """
    if venv_python_works():
        print("environment: reusing .venv", flush=True)
        return
    python = find_python()
    print(f"environment: creating .venv with {python}", flush=True)
    run = subprocess.run([python, "-m", "venv", "--clear", str(VENV)], capture_output=True, text=True)
    if run.returncode != 0:
        reason = (run.stdout + run.stderr).strip().splitlines() or ["no reason given"]
        raise SetupError(f"{python} could not create .venv ({reason[-1]}); on Debian install python3.11-venv")


def install_torch() -> None:
    """Install the CPU build from the configured indexes, or else from PyTorch's own.

    PyTorch's index is named for this one package only: an index that cannot be reached is retried for every package
    of an installation, which would take many minutes.

    Raises:
        SetupError: neither has it.
    """
    print(f"environment: installing {TORCH} (200 MB)", flush=True)
    try:
        pip("install", "--retries", "1", TORCH)
    except SetupError:
        print("environment: the configured indexes do not have it; trying PyTorch's own", flush=True)
        try:
            pip("install", "--no-deps", "--index-url", TORCH_INDEX, TORCH)
        except SetupError as error:
            raise SetupError(
                f"{TORCH} is neither in the configured indexes nor to be had from PyTorch's; {error}"
            ) from None


def check_imports() -> None:
    """Import what breaks first when builds do not match.

    Raises:
        SetupError: an import fails.
    """
    code = "import torch, transformers, vllm, deepspeed, ray"
    env = os.environ | {"DS_ACCELERATOR": "cpu"}
    run = subprocess.run([str(VENV / "bin" / "python"), "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)
    if run.returncode != 0:
        reason = run.stderr.strip().splitlines()[-1]
        raise SetupError(f"the environment does not import ({reason}); delete .venv and call this again")


def pip(*arguments: str) -> None:
    """Run pip in `.venv`, with a line of progress every few seconds; its whole output goes to the log.

    Raises:
        SetupError: pip failed.
    """
    command = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", *arguments]
    lines: list[str] = []
    done = threading.Event()
    threading.Thread(target=heartbeat, args=(lines, done), daemon=True).start()
    with LOG.open("a") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            lines.append(line.strip())
        process.wait()
    done.set()
    if process.returncode != 0:
        raise SetupError(pip_failure(lines))


def heartbeat(lines: "list[str]", done: threading.Event) -> None:
    """Show every few seconds what pip is at; unpacking takes minutes in which pip itself says nothing."""
    started = time.monotonic()
    while not done.wait(HEARTBEAT_S):
        news = next((line for line in reversed(lines) if line.startswith(PROGRESS)), "pip starts")
        news = news.split(" (from")[0].split("collected packages")[0]
        print(f"  {time.monotonic() - started:4.0f} s  {news[:90].strip()}", flush=True)


def pip_failure(lines: "list[str]") -> str:
    """One sentence about why pip failed, from its output."""
    errors = [line for line in lines if line.startswith("ERROR:")] or lines[-1:] or ["no output"]
    if any(sign in line for line in lines for sign in UNREACHABLE):
        return f"pip cannot reach its package index; check the network and pip's settings (log: {LOG})"
    return f"pip failed: {errors[-1].removeprefix('ERROR:').strip()} (log: {LOG})"


if __name__ == "__main__":
    try:
        main()
    except SetupError as error:
        sys.exit(f"error: {error}")
