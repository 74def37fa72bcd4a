"""Ray and the run's shared memory, from before its first process to after its last."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import ray

from configs.schema import Config
from pipeline.placement import on_one_machine, start_ray
from pipeline.process_setup import ENV_OWNER
from pipeline.shared_memory import SharedMemory


@contextmanager
def ray_session(config: Config) -> Iterator[SharedMemory]:
    """Ray for as long as the context lasts; what its processes leave in shared memory is removed at the end."""
    memory = SharedMemory()
    if on_one_machine(config):  # elsewhere another run could not tell whether this one lives
        os.environ[ENV_OWNER] = memory.owner
    try:
        start_ray(config)
        yield memory
    finally:
        memory.note()
        ray.shutdown()
        memory.close()
        os.environ.pop(ENV_OWNER, None)
