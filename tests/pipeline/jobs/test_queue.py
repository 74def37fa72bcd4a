"""The queue of runs, with small processes in place of runs."""

import io
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console

import pipeline.jobs.queue
from pipeline.jobs.queue import LOG, Job, JobQueue
from pipeline.records.run_folder import RunFolder

FINISHES = "open('summary.json', 'w').write('{}')"


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(pipeline.jobs.queue, "POLL_S", 0.05)


class ScriptJob(Job):
    """A job whose process runs `script` in its folder."""

    script = FINISHES

    def start(self):
        self.folder.root.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.script], cwd=self.folder.root, start_new_session=True
        )


def _jobs(root, *scripts):
    jobs = []
    for i, script in enumerate(scripts):
        job = ScriptJob(f"v{i}", 1, RunFolder(root / f"v{i}"), root / "job.yaml", ())
        job.script = script
        jobs.append(job)
    return jobs


def _run(jobs, parallel=1):
    out = io.StringIO()
    JobQueue(jobs, parallel, Console(file=out, width=200)).run()
    return out.getvalue()


def test_a_run_that_fails_does_not_end_the_others(tmp_path):
    jobs = _jobs(tmp_path, FINISHES, "raise SystemExit(1)", FINISHES)
    text = _run(jobs)
    assert [j.finished for j in jobs] == [True, False, True]
    assert f"failed, see {tmp_path / 'v1' / 'run.log'}" in text


def test_the_reason_of_a_failure_is_the_last_sentence_of_its_last_attempt(tmp_path):
    (job,) = _jobs(tmp_path, "raise SystemExit(1)")
    log = tmp_path / "v0" / LOG
    log.parent.mkdir()
    old = "error: the first attempt\n"
    log.write_text(f"{old}a line\nerror: an early one\nerror: no room\na last line\n")
    assert job.why_unfinished() == "has not finished"
    job.failed, job.log_start = True, len(old)
    assert job.why_unfinished() == f"failed (no room; see {log})"
    log.write_text(old)
    assert job.why_unfinished() == f"failed (it gave no reason; see {log})"
    job.folder.summary.write_text("{}")
    assert job.why_unfinished() is None


def test_a_finished_run_is_not_started_again(tmp_path):
    (tmp_path / "v0").mkdir()
    (tmp_path / "v0" / "summary.json").write_text("{}")
    jobs = _jobs(tmp_path, "open('started', 'w')", FINISHES)
    _run(jobs)
    assert not (tmp_path / "v0" / "started").exists() and all(j.finished for j in jobs)


def test_a_run_is_left_to_close_its_processes_after_its_summary(tmp_path):
    jobs = _jobs(tmp_path, f"{FINISHES}; import time; time.sleep(0.7); open('closed', 'w')")
    _run(jobs)
    assert (tmp_path / "v0" / "closed").exists() and jobs[0].finished


def test_no_more_than_so_many_at_a_time(tmp_path):
    """The first two wait for each other, so that they end only if they run together."""
    marks = """
import os, time
begin = time.monotonic()
print(begin, file=open("begin", "w"))
while not os.path.exists("../{other}/begin"):
    assert time.monotonic() < begin + 20, "the other one does not run"
    time.sleep(0.01)
time.sleep(0.3)
print(time.monotonic(), file=open("end", "w"))
"""
    jobs = _jobs(tmp_path, *[marks.format(other=other) + FINISHES for other in ("v1", "v0", "v2")])
    _run(jobs, parallel=2)
    assert all(job.finished for job in jobs)
    begins, ends = ([float((tmp_path / f"v{i}" / n).read_text()) for i in range(3)] for n in ("begin", "end"))
    assert begins[2] >= min(ends[:2]), "the third waits for one of them"


TERMINATED = "import signal, sys, time\n" + (
    "signal.signal(signal.SIGTERM, lambda *_: (open('stopped', 'w'), sys.exit()))\nopen('ready', 'w')\ntime.sleep(60)"
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_of_the_queue_stops_what_runs(tmp_path, number):
    jobs = _jobs(tmp_path, TERMINATED)

    def interrupt():
        while jobs[0].process is None or not (tmp_path / "v0" / "ready").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt, match="the same command resumes, and finished runs are kept"):
        _run(jobs)
    assert (tmp_path / "v0" / "stopped").exists()


def test_an_interruption_while_a_run_is_started_stops_that_run_too(tmp_path):
    class InterruptedStart(ScriptJob):
        def start(self):
            super().start()
            process, self.process = self.process, None
            while not (tmp_path / "v0" / "ready").exists():
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
            self.process = process

    job = InterruptedStart("v0", 1, RunFolder(tmp_path / "v0"), tmp_path / "job.yaml", ())
    job.script = TERMINATED
    with pytest.raises(KeyboardInterrupt):
        _run([job])
    assert (tmp_path / "v0" / "stopped").exists()


def test_where_there_is_no_live_table_every_change_is_a_line(tmp_path):
    lines = [line.rstrip() for line in _run(_jobs(tmp_path, FINISHES, "raise SystemExit(1)")).splitlines()]
    told = [line for line in lines if line.startswith("v")]
    assert told[:2] == ["v0, seed 1: running", "v0, seed 1: finished"]
    assert told[2:] == ["v1, seed 1: running", f"v1, seed 1: failed, see {tmp_path / 'v1' / 'run.log'}"]
