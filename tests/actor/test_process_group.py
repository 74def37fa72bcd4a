"""Where trainer ranks meet: at an address of rank 0's, and nowhere else."""

import os
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from actor import process_group
from actor.process_group import open_meeting_point, prepare_environment
from actor.worker import TrainerWorker
from configs.schema import Config

ANOTHER = "127.0.0.2"  # Linux gives the loopback interface all of 127.0.0.0/8


def reachable(address, port):
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True


def test_ranks_meet_at_the_address_given_and_it_listens_nowhere_else():
    listening = open_meeting_point(ANOTHER)
    port = listening.getsockname()[1]
    assert reachable(ANOTHER, port) and not reachable("127.0.0.1", port)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(process_group._store, 0, 2, ANOTHER, port, listening)
        second = process_group._store(1, 2, ANOTHER, port)
        first.result(timeout=30).set("weights", "whole")
        assert second.get("weights") == b"whole"
    assert reachable(ANOTHER, port) and not reachable("127.0.0.1", port)


def test_rank_0_opens_the_meeting_point_itself_where_none_was_opened_before():
    with open_meeting_point(ANOTHER) as probe:
        port = probe.getsockname()[1]
    store = process_group._store(0, 1, ANOTHER, port)
    assert reachable(ANOTHER, port) and not reachable("127.0.0.1", port)
    del store


@pytest.mark.parametrize(("loopback", "address"), [(True, "127.0.0.1"), (False, ANOTHER)])
def test_rank_0_names_its_nodes_address_unless_the_run_stays_on_one_machine(monkeypatch, loopback, address):
    import ray

    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: ANOTHER)
    worker = TrainerWorker(Config(), 0, 2)
    found, port = worker.meeting_point(loopback)
    assert found == address and reachable(address, port)
    worker._listening.close()


@pytest.mark.parametrize(("address", "interface"), [("127.0.0.1", "lo"), (ANOTHER, None)])
def test_gloo_is_kept_on_loopback_only_where_the_ranks_meet_there(monkeypatch, address, interface):
    monkeypatch.setattr(os, "environ", {})
    prepare_environment(1, 2, address, 4000)
    assert os.environ.get("GLOO_SOCKET_IFNAME") == interface
    assert (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]) == (address, "4000")
