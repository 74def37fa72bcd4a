"""Environment variables of an engine process.

On CPUs vLLM binds its OpenMP threads to cores of its own choice by default, and idle OpenMP threads spin. With a
trainer on the same cores both cost more than they save, so threads are counted, unbound, and sleep when idle.
"""

import os
from collections.abc import Mapping

ANYWHERE: dict[str, str] = {
    "VLLM_NO_USAGE_STATS": "1",  # a training run reports to nobody
    # Abstract sockets: an engine that is killed leaves no socket files behind.
    "VLLM_RPC_BASE_PATH": "@proxrl",
}

SETTINGS: dict[str, str] = ANYWHERE | {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_WAIT_POLICY": "PASSIVE",  # idle OpenMP threads sleep, they do not spin
    "KMP_BLOCKTIME": "0",  # the same for Intel's runtime
    # An engine's processes talk to each other on this machine only.
    "VLLM_HOST_IP": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
    # The sampler has a few functions under torch.compile, which compile C++ for half a minute at the first request.
    "TORCHDYNAMO_DISABLE": "1",
}
"""On CPUs."""


PLUGINS = "VLLM_PLUGINS"
RECEIVER_PLUGIN = "proxrl_weight_receiver"
"""The name under which pyproject.toml announces our weight receiver to vLLM."""


def load_our_plugin() -> None:
    """Add our plugin where the user's VLLM_PLUGINS names those that vLLM may load."""
    chosen = os.environ.get(PLUGINS)
    if chosen is not None and RECEIVER_PLUGIN not in chosen.split(","):
        os.environ[PLUGINS] = ",".join(filter(None, [chosen, RECEIVER_PLUGIN]))


def cpu_environment(environ: Mapping[str, str], num_cores: int) -> dict[str, str]:
    """Variables to set before an engine starts on a CPU; what is set already stays.

    The number of threads is `OMP_NUM_THREADS` where it is set (a run divides the cores), else half the cores.
    """
    wanted = {"OMP_NUM_THREADS": str(max(1, num_cores // 2)), **SETTINGS}
    return {name: value for name, value in wanted.items() if name not in environ}


def apply_cpu_environment() -> None:
    """Set the variables in this process, from which engine processes inherit them."""
    os.environ.update(cpu_environment(os.environ, len(os.sched_getaffinity(0))))


def apply_gpu_environment() -> None:
    """The same where the model computes on a GPU."""
    os.environ.update({name: value for name, value in ANYWHERE.items() if name not in os.environ})
