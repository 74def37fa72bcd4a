"""A run in a process of its own, as a user starts it, and what is left behind when it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import torch
from safetensors.torch import load_file

from examples.quickstart.problems import write_jsonl
from examples.quickstart.tokenizer import save_tokenizer
from examples.quickstart.warm_start import WarmStart, new_model
from pipeline.records.json_lines import read_json_lines
from tests.faults.run_mark import RUN_MARK, is_of, title_of

ROOT = Path(__file__).resolve().parents[2]


def make_inputs(folder: Path, num_prompts: int = 64) -> tuple[Path, Path]:
    """A small untrained model with the quickstart's tokenizer, and a data set for it."""
    model = folder / "model"
    torch.manual_seed(0)
    settings = WarmStart(num_layers=2)  # heads of 32, the smallest that the engine computes on a CPU
    new_model(save_tokenizer(model), settings).save_pretrained(model)
    data = folder / "train.jsonl"
    write_jsonl(data, seed=0, held_out=False, count=num_prompts)
    (folder / "run.yaml").write_text("run:\n  name: faults\n")  # everything else comes as key=value
    return model, data


def overrides(model: Path, data: Path, run_dir: Path, **settings: object) -> list[str]:
    """Settings of a small synchronous run; double underscores in a name stand for dots."""
    values: dict[str, object] = {
        "run__dir": run_dir,
        "model__path": model,
        "model__dtype": "float32",
        "dataset__path": data,
        "dataset__max_prompt_tokens": 64,
        "reward__function": "tests.faults.rewards:length_reward",
        "rollout__max_head_offpolicyness": 0,
        "rollout__max_concurrent_rollouts": 8,
        "rollout__sampling__n_samples": 4,
        "rollout__sampling__max_new_tokens": 12,
        "actor__optimizer__lr": 1e-3,
        "train__batch_size": 4,
        "eval__num_samples": 0,
        "consistency__every": 0,
    }
    pairs = [f"{name.replace('__', '.')}={value}" for name, value in (values | settings).items()]
    return ["--config", str(data.parent / "run.yaml"), *pairs]


class RunProcess:
    """`proxrl train` (or a script of the tests that stands for it) with all that it starts."""

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        env: dict[str, str] | None = None,
        script: str = "",
        own_shared_memory: bool = True,
    ) -> None:
        """`own_shared_memory`: in a mount namespace with a /dev/shm that all runs beside `log` share, and none else."""
        self.log = log
        self.shared_memory = log.parent / "shm"
        self.mark = f"{log.parent.name}-{time.monotonic_ns()}"
        command = [sys.executable, *(["-m", script] if script else ["-m", "pipeline.cli"]), "train", *arguments]
        if own_shared_memory:
            self.shared_memory.mkdir(exist_ok=True)
            command = [*in_namespace(self.shared_memory), *command]
        environment = os.environ | {RUN_MARK: self.mark, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"} | (env or {})
        with log.open("ab") as out:
            # A group of its own, as a shell makes one for a job, so that a signal can go to all of it.
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT, process_group=0
            )

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def processes(self) -> list[psutil.Process]:
        """Every living process of the run, wherever it hangs in the process tree."""
        return [p for p in psutil.process_iter() if p.pid != self.process.pid and is_of(p, self.mark)]

    def named(self, part: str) -> list[psutil.Process]:
        """Processes whose title holds `part`."""
        return [p for p in self.processes() if part in title_of(p)]

    def wait_until(self, condition: Callable[[], bool], what: str, limit_s: float = 400.0) -> None:
        end = time.monotonic() + limit_s
        while not condition():
            assert self.process.poll() is None, f"ended while waiting for {what}:\n{self.output()}"
            assert time.monotonic() < end, f"waited {limit_s} s for {what}:\n{self.output()}"
            time.sleep(0.1)

    def wait(self, limit_s: float = 500.0) -> int:
        """Its exit code."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {limit_s} s:\n{self.output()}") from None

    def signal_group(self, number: int) -> None:
        """As a terminal does it: to the command and everything in its process group."""
        os.killpg(self.process.pid, number)

    def wait_for_the_end_of_all(self, limit_s: float) -> float:
        """Seconds until no process of the run is left; fails when some stay."""
        started = time.monotonic()
        while left := self.processes():
            if time.monotonic() - started > limit_s:
                names = [f"{p.pid} {p.name()} ppid={p.ppid()} {p.status()}" for p in left]
                raise AssertionError(f"left after {limit_s} s: {names}\n{self.output()}")
            time.sleep(0.2)
        return time.monotonic() - started

    def shared_memory_left(self) -> set[str]:
        """Names of the files in the run's own shared memory; call it when its processes have ended."""
        return {path.name for path in self.shared_memory.iterdir()}

    def destroy(self) -> None:
        """Whatever a failed test left."""
        for process in [
            *self.processes(),
            *([psutil.Process(self.process.pid)] if self.process.poll() is None else []),
        ]:
            process.send_signal(signal.SIGKILL)
        self.process.wait()


def in_namespace(shared_memory: Path) -> list[str]:
    """The start of a command line whose process sees the folder as /dev/shm."""
    rootless = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", *rootless, "sh", "-c", f'mount --bind "{shared_memory}" /dev/shm && exec "$0" "$@"']


def steps(run_dir: Path) -> list[dict]:
    """The rows of metrics.jsonl that training steps wrote."""
    path = run_dir / "metrics.jsonl"
    return [r for r in read_json_lines(path) if r["step"] > 0] if path.exists() else []


def audit_problems(run_dir: Path) -> list[str]:
    """What `proxrl audit` says where it does not exit with 0."""
    command = [sys.executable, "-m", "pipeline.cli", "audit", str(run_dir)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines()


def final_weights(run_dir: Path) -> dict[str, torch.Tensor]:
    newest = sorted((run_dir / "checkpoints").glob("step-*"))[-1]
    return load_file(newest / "policy" / "model.safetensors")
