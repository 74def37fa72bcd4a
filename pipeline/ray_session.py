"""Ray and the run's shared memory, from before its first process to after its last."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from configs.schema import Config
from pipeline.placement import on_one_machine
from pipeline.process_setup import ENV_OWNER
from pipeline.ray_start import start_ray
from pipeline.shared_memory import SharedMemory, remove_orphans_soon

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
