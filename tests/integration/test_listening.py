"""What a run of one machine offers to the network: nothing beyond loopback, by any of its processes."""

import ipaddress

import psutil
import pytest

from tests.faults.run_process import RunProcess, make_inputs, overrides, steps

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


def listening(processes):
    """(title, address, port) of every socket on which one of them waits for others to connect, UDP included."""
    found = set()
    for process in processes:
        try:
            for c in process.net_connections("inet"):
                waits = c.status == psutil.CONN_LISTEN or (not c.raddr and c.laddr)
                if waits:
                    found.add((process.name(), c.laddr.ip, c.laddr.port))
        except psutil.NoSuchProcess:
            continue
    return found


def reachable_from_outside(address):
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)  # ::ffff:127.0.0.1 is 127.0.0.1
    return not (mapped or parsed).is_loopback


def test_only_this_machine_reaches_a_run_of_two_ranks_and_two_workers(tmp_path):
    model, data = make_inputs(tmp_path)
    run_dir = tmp_path / "run"
    settings = {"actor__num_workers": 2, "rollout__num_workers": 2, "rollout__max_head_offpolicyness": 1}
    run = RunProcess(overrides(model, data, run_dir, train__total_steps=1000, **settings), tmp_path / "run.log")
    found = set()

    def two_steps_are_done():
        found.update(listening([*run.processes(), psutil.Process(run.process.pid)]))
        return len(steps(run_dir)) >= 2

    try:
        run.wait_until(two_steps_are_done, "step 2")
        run.process.terminate()
        assert run.wait(60) == 130, run.output()
    finally:
        run.destroy()
    by = {name.split("::")[0] for name, _, _ in found}
    assert any("gcs_server" in name for name in by) and any("raylet" in name for name in by), found
    assert {f for f in found if reachable_from_outside(f[1])} == set()
