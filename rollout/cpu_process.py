"""Environment of an engine process that shares a machine's cores with a trainer.

vLLM binds its OpenMP threads to cores of its choice by default and idle OpenMP threads spin. With a trainer on the
same cores both cost a multiple of the time they save, so threads are counted, unbound and sleep when idle.
"""

import os
from collections.abc import Mapping

SETTINGS: dict[str, str] = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_WAIT_POLICY": "PASSIVE",  # idle OpenMP threads sleep, they do not spin
    "KMP_BLOCKTIME": "0",  # the same for Intel's runtime
    # The sampler has a few functions under torch.compile, which compile C++ for half a minute at the first request.
    "TORCHDYNAMO_DISABLE": "1",
    # Abstract sockets: an engine that is killed leaves no socket files behind.
    "VLLM_RPC_BASE_PATH": "@proxrl",
}


def cpu_environment(environ: Mapping[str, str], num_cores: int) -> dict[str, str]:
    """Variables to set before vLLM is imported; what the user has set stays.

    The number of threads is `OMP_NUM_THREADS` where it is set (the run divides the cores) and half the cores else.
    """
    wanted = {"OMP_NUM_THREADS": str(max(1, num_cores // 2)), **SETTINGS}
    return {name: value for name, value in wanted.items() if name not in environ}


def apply_cpu_environment() -> None:
    """Set the variables in this process, from which engine processes inherit them."""
    os.environ.update(cpu_environment(os.environ, len(os.sched_getaffinity(0))))
