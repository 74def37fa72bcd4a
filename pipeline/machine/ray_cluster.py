"""Ray and the run's shared memory, from before its first process to after its last.

Starts a Ray of the run's own, or joins a cluster.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import ray
import torch
from ray._private import auto_init_hook, ray_constants
from ray._private import utils as ray_utils
from ray._private.services import canonicalize_bootstrap_address
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from configs.errors import ConfigError, refused
from configs.schema import Config
from pipeline.errors import RunFailed
from pipeline.machine.placement import on_one_machine
from pipeline.machine.processes import ENV_OWNER
from pipeline.machine.shared_memory import SharedMemory, remove_orphans_soon
from rollout.errors import shortened

CONNECT_TIMEOUT_S = 10.0


def start_ray(config: Config) -> None:
    """Start a Ray of the run's own (scheduler.type=local) or join a cluster (ray)."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Ray lowers the priority of its workers by 15; ours are the job itself and share the machine as equals.
    os.environ.setdefault("RAY_worker_niceness", "0")
    # What a worker leaves behind when it is killed, also a process that hangs, is killed with it.
    os.environ.setdefault("RAY_process_group_cleanup_enabled", "1")
    # A call after the end of the run is a mistake; by default Ray would start again for it, and stay.
    # The environment variables of these two switches are read when Ray is imported, which is before this.
    auto_init_hook.enable_auto_connect = False
    # Ray's own handler would answer SIGTERM, the request to end a run, with a dump and an abort.
    ray_constants.RAY_DISABLE_FAILURE_SIGNAL_HANDLER = True
    common: dict[str, Any] = {
        "log_to_driver": False,
        "logging_level": "ERROR",
        "runtime_env": {"worker_process_setup_hook": "pipeline.machine.processes.set_up"},
    }
    if config.scheduler.type == "ray":
        _join(config.scheduler.address, common)
        return
    # Nothing of a local run is for other machines: by this switch, meant for desktops, all of Ray listens on loopback.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    ray_constants.ENABLE_RAY_CLUSTER = False  # read from the environment when Ray was imported
    # Actors are sized by us; a small machine still has to hold every rank and worker.
    slots = config.actor.num_workers + config.rollout.num_workers
    try:
        _init(
            address="local",
            num_cpus=max(os.cpu_count() or 1, slots),
            num_gpus=torch.cuda.device_count(),
            include_dashboard=False,
            **common,
        )
    except OSError as error:  # the home or temporary folder cannot be used
        raise RunFailed(f"Ray did not start: {shortened(str(error))}; see HOME and TMPDIR") from error


def _join(address: str | None, settings: dict[str, Any]) -> None:
    """Raises ConfigError: no cluster answers, it does not let us in, or it is of other versions."""
    try:
        found = canonicalize_bootstrap_address(address or "auto")
        assert found is not None, "never for this form of address"
        host, _, port = found.rpartition(":")
        # Ray itself would go on trying for minutes.
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
    except (OSError, OverflowError, UnicodeError):  # no cluster is known or answers; no such port; no such name
        why = "does not lead to a Ray cluster"
        raise _refused(
            address, why, "start one with `ray start --head`, and give the HOST:PORT that it prints"
        ) from None
    try:
        _init(address=found, **settings)
    except ray.exceptions.AuthenticationError:
        remedy = "copy ~/.ray/auth_token from its first machine to this one"
        raise _refused(address, "is a cluster that asks for another token", remedy) from None
    except ConnectionError:
        remedy = f"run `ray start --address {found}` here; where it asks for a token, set RAY_AUTH_MODE=token before"
        raise _refused(address, "is a cluster that does not know this machine", remedy) from None
    except RuntimeError as error:
        if "Version mismatch" not in str(error):
            raise
        told = " ".join(str(error).split())
        raise _refused(address, f"is a cluster of other versions ({told})", "install the same everywhere") from None


def _refused(address: str | None, why: str, remedy: str) -> ConfigError:
    return refused("scheduler.address", address, why, remedy)


def _init(**settings: Any) -> None:
    """`ray.init`, during and after which SIGTERM does what it did: Ray would leave at once, without an end in order.

    Raises:
        RunFailed: Ray's processes did not start within its own limit of 30 s, at the second attempt either.
    """
    ray_utils.set_sigterm_handler = lambda handler: None
    for attempt in (1, 2):
        try:
            ray.init(**settings)
            break
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
            ray.shutdown()
            if attempt == 2:
                raise RunFailed("Ray did not start in time, twice: this machine is too busy for it now") from error


CLEAN_TIMEOUT_S = 20.0


@contextmanager
def ray_session(config: Config) -> Iterator[SharedMemory]:
    """Ray for as long as the context lasts; what its processes leave in shared memory is removed at the end."""
    memory = SharedMemory()
    alone = on_one_machine(config)
    if alone:  # elsewhere another run could not tell whether this one lives
        os.environ[ENV_OWNER] = memory.owner
    try:
        start_ray(config)
        yield memory
    finally:
        try:
            memory.note()
            if ray.is_initialized() and not alone:
                clean_nodes()
        finally:
            ray.shutdown()
            memory.close()
            os.environ.pop(ENV_OWNER, None)


def clean_nodes() -> None:
    """Remove what killed processes have left on the machines of a cluster; a machine that does not answer is left."""
    clean = ray.remote(num_cpus=0)(remove_orphans_soon)
    with suppress(ray.exceptions.RayError):
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        places = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
        refs = [clean.options(scheduling_strategy=place).remote() for place in places]
        ray.wait(refs, num_returns=len(refs), timeout=CLEAN_TIMEOUT_S)
