"""A run that joins a Ray cluster of two nodes, which here are two raylets of one machine."""

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.faults.run_mark import RUN_MARK, is_of, title_of
from tests.faults.run_process import (
    RunProcess,
    audit_problems,
    make_inputs,
    overrides,
    steps,
)

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

RAY = str(Path(sys.executable).with_name("ray"))
CPUS_OF_A_NODE = 2
PORT_TAKEN = "Address already in use"
SHARED_MEMORY = Path("/dev/shm")
LEFT_BEHIND = ("sem.mp-", "psm_", "__KMP_REGISTERED_LIB_")
"""What killed processes leave in shared memory beside the files that bear their run's name."""


class Cluster:
    """Started as its users start one; every process of it, and of runs on it, bears the mark."""

    def __init__(self, temporary: Path) -> None:
        self.mark = f"cluster-{secrets.token_hex(4)}"
        self.address = ""
        self.env = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), RUN_MARK: self.mark}
        self._temporary = str(temporary)

    def start(self) -> None:
        try:
            self._start_head()
        except subprocess.CalledProcessError:
            self.stop()
            if not self._port_was_taken():
                raise
            self._start_head()
        self._start_node("--address", self.address)

    def _start_head(self) -> None:
        """At a free port, which another process may take before Ray does."""
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        self._start_node("--head", "--port", str(port), "--temp-dir", self._temporary, "--include-dashboard", "false")

    def _port_was_taken(self) -> bool:
        logs = Path(self._temporary).glob("session_*/logs/gcs_server.*")
        return any(PORT_TAKEN in log.read_text(errors="replace") for log in logs)

    def _start_node(self, *arguments: str) -> None:
        size = ("--num-cpus", str(CPUS_OF_A_NODE), "--disable-usage-stats")
        subprocess.run([RAY, "start", *arguments, *size], env=os.environ | self.env, check=True, timeout=120)

    def processes(self, title: str = "") -> list[psutil.Process]:
        return [p for p in psutil.process_iter() if is_of(p, self.mark) and title in title_of(p)]

    def stop(self) -> None:
        # `ray stop` would end every Ray of this machine.
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):  # it went with its raylet
                process.kill()


@pytest.fixture(scope="module")
def cluster():
    temporary = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # the path of a socket must be short
    cluster = Cluster(temporary)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(temporary, ignore_errors=True)


def shared_memory_files() -> set[str]:
    return {p.name for p in SHARED_MEMORY.iterdir()}


def held_by_the_living() -> set[str]:
    """Names of the shared memory that some process has mapped now."""
    names = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):  # the process has just ended
            names |= {Path(line.split()[-1]).name for line in maps.read_text().splitlines() if "/dev/shm/" in line}
    return names


def left_in_shared_memory(before):
    """New files of processes that are gone."""
    new = shared_memory_files() - before
    owners = {n: int(found[1]) for n in new if (found := re.match(r"(?:sem\.)?proxrl-([0-9]+)-", n))}
    named = {n for n, pid in owners.items() if not psutil.pid_exists(pid)}
    return (named | {n for n in new if n.startswith(LEFT_BEHIND)}) - held_by_the_living()


def test_ranks_and_workers_on_two_nodes_and_one_worker_killed(tmp_path, cluster):
    model, data = make_inputs(tmp_path)
    run_dir, before = tmp_path / "run", shared_memory_files()
    settings = {
        "scheduler__type": "ray",
        "scheduler__address": cluster.address,
        "actor__num_workers": 2,
        "rollout__num_workers": 2,
        "rollout__max_head_offpolicyness": 1,
        "train__total_steps": 30,
        "checkpoint__every": 10,
    }
    arguments = overrides(model, data, run_dir, **settings)
    run = RunProcess(arguments, tmp_path / "run.log", cluster.env, own_shared_memory=False)
    try:
        run.wait_until(lambda: len(steps(run_dir)) >= 2, "step 2")
        ranks, workers = cluster.processes("ray::TrainerWorker"), cluster.processes("ray::RolloutWorker")
        assert len(ranks) == len(workers) == 2
        assert len({p.ppid() for p in [*ranks, *workers]}) == 2, "the parent is the node's raylet"
        workers[0].kill()
        assert run.wait() == 0, run.output()
        assert [r["step"] for r in steps(run_dir)] == list(range(1, 31))
        assert steps(run_dir)[-1]["buffer/num_worker_restarts"] == 1
        differences = [d for r in steps(run_dir) if (d := r.get("mismatch/lag_0/abs_logp_diff")) is not None]
        assert differences and max(differences) < 1e-4
        assert audit_problems(run_dir) == []
        assert not cluster.processes("ray::TrainerWorker") and not cluster.processes("ray::RolloutWorker")
        assert left_in_shared_memory(before) == set()
    finally:
        run.destroy()


def test_a_cluster_that_asks_for_a_token_refuses_us_in_one_sentence(tmp_path, cluster):
    model, data = make_inputs(tmp_path)
    settings = {"scheduler__type": "ray", "scheduler__address": cluster.address, "train__total_steps": 1}
    without = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": ""}
    arguments = overrides(model, data, tmp_path / "run", **settings)
    run = RunProcess(arguments, tmp_path / "run.log", without, own_shared_memory=False)
    try:
        assert run.wait(120) == 2, run.output()
        told = " ".join(run.output().split())
        assert "is a cluster that does not know this machine" in told and "set RAY_AUTH_MODE=token" in told
        assert "Traceback" not in told
    finally:
        run.destroy()
