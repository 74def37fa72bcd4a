"""What this machine has, and whether it is what the config needs."""

import os
from pathlib import Path

from configs.errors import ConfigError, refused
from configs.loading.presets import cpu_presets
from configs.schema import Config


def num_cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def num_gpus() -> int:
    """GPUs that this process may use."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def check_hardware(config: Config, trains: bool = True) -> None:
    """Refuse a job that this machine cannot run; under scheduler.type=ray the cluster decides instead.

    A job that does not train needs no GPU for trainer ranks. With scheduler.device=cpu the GPUs are hidden from this
    process and from all that it starts.

    Raises:
        ConfigError: what is missing, and what runs here.
    """
    if config.scheduler.type == "local":
        _check_temporary_folder()
    if config.scheduler.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        _check_cpu(config, "under scheduler.device=cpu")
        return
    if config.scheduler.type == "ray":
        return
    found = num_gpus()
    if found == 0:
        _check_gpu_not_needed(config, trains)
        _check_cpu(config, "and this machine has none")
    else:
        _check_num_gpus(config, found, trains)


MAX_TEMPORARY_FOLDER = 39
"""Characters: Ray's longest socket path has 68 more, and Linux takes 107 in all."""


def _check_temporary_folder() -> None:
    name = "RAY_TMPDIR" if "RAY_TMPDIR" in os.environ else "TMPDIR"
    folder = os.environ.get(name, "/tmp")
    if len(os.fsencode(folder)) > MAX_TEMPORARY_FOLDER:
        raise refused(
            name,
            folder,
            f"has {len(os.fsencode(folder))} characters, too many for the paths of Ray's sockets",
            f"choose a folder of at most {MAX_TEMPORARY_FOLDER} characters, for instance RAY_TMPDIR=/tmp",
        )


def computes_on_cpu(config: Config) -> bool:
    """Whether trainer and engines will run without a GPU; of a cluster that it chooses, this machine cannot tell."""
    return config.scheduler.device == "cpu" or (config.scheduler.type != "ray" and num_gpus() == 0)


def needed_gpus(config: Config, trains: bool = True) -> int:
    """One GPU a trainer rank and tensor_parallel_size a rollout worker."""
    return config.actor.num_workers * trains + config.rollout.num_workers * config.rollout.tensor_parallel_size


def runs_here() -> str:
    """The presets for a machine without a GPU, as the end of a sentence."""
    names = [preset for preset in cpu_presets() if Path(preset).is_file()]
    return f"run --config {' or '.join(names)} here" if names else "use a preset for CPUs here"


def _check_gpu_not_needed(config: Config, trains: bool) -> None:
    needed = needed_gpus(config, trains)
    gpus = "one GPU" if needed == 1 else f"{needed} GPUs"
    if config.scheduler.device == "gpu":
        raise ConfigError(
            f"scheduler.device=gpu: this job ({config.model.path}) needs {gpus} and this machine has none; "
            f"{runs_here()}, or start it on a machine with GPUs.",
            "scheduler.device",
        )
    if config.model.dtype == "bfloat16":
        raise ConfigError(
            f"model.dtype=bfloat16: this job ({config.model.path}) needs {gpus} and this machine has none; "
            f"{runs_here()}, or set model.dtype=float32 (scheduler.device=cpu accepts slow bfloat16).",
            "model.dtype",
        )


def _check_cpu(config: Config, where: str) -> None:
    if config.rollout.tensor_parallel_size > 1:
        raise refused(
            "rollout.tensor_parallel_size", config.rollout.tensor_parallel_size, f"needs GPUs {where}", "use 1"
        )
    if config.rollout.weight_sync.backend == "nccl":
        raise refused("rollout.weight_sync.backend", "nccl", f"needs GPUs {where}", "use auto or shared_memory")
    if config.actor.attn_implementation == "flash_attention_2":
        raise refused("actor.attn_implementation", "flash_attention_2", f"needs GPUs {where}", "use auto")
    if config.actor.deepspeed.offload_optimizer:
        raise refused("actor.deepspeed.offload_optimizer", True, f"needs GPUs {where}", "use false")


def _check_num_gpus(config: Config, found: int, trains: bool) -> None:
    needed = needed_gpus(config, trains)
    if needed > found:
        raise ConfigError(
            f"actor.num_workers={config.actor.num_workers} and rollout.num_workers={config.rollout.num_workers} "
            f"(of {config.rollout.tensor_parallel_size} GPUs each) need {needed} GPUs and this machine has {found}; "
            "lower them, set scheduler.type=ray to join a cluster, or scheduler.device=cpu.",
            "actor.num_workers",
        )
