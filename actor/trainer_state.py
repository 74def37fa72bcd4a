"""The trainer's exact state: what the next step depends on, without pickle.

```
DIR/state.json                  what the state belongs to: ranks, ZeRO stage, type, adapters
DIR/parameters-NNNNN            trained parameters, whole (rank 0)
DIR/reference-NNNNN             the reference model, if it was reset (rank 0)
DIR/rank-NNNNN.safetensors      float32 master weights, AdamW moments, random generators, gradient norms of one rank
```
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

from actor.deepspeed_engine import base_optimizer, gathered, master_parameters
from actor.random_state import random_state, restore_random_state
from actor.tensor_files import save_tensors
from actor.trainer import Trainer

_BUCKET_PARAMETERS = 64
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def save_state(trainer: Trainer, directory: str) -> None:
    """Write the state. Collective. Raises OSError when the folder cannot be written."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    if dist.get_rank() == 0:
        (target / "state.json").write_text(json.dumps(_belongs_to(trainer), indent=2))
    _save_parameters(_trained(trainer), target, "parameters")
    if trainer.reference is not None and trainer.reference.was_reset:
        _save_parameters(dict(trainer.reference.policy.inner.named_parameters()), target, "reference")
    save_tensors(_rank_tensors(trainer), _rank_file(target))
    dist.barrier()


def load_state(trainer: Trainer, directory: str) -> None:
    """Put the state back into a trainer of the same config. Collective.

    Raises ValueError when the state is of another model, ZeRO stage or number of ranks, and
    OSError when files are missing.
    """
    source = Path(directory)
    saved, own = json.loads((source / "state.json").read_text()), _belongs_to(trainer)
    for key, value in own.items():
        if key != "reference_was_reset" and saved[key] != value:
            raise ValueError(
                f"the trainer state in {directory} was saved with {key}={saved[key]}, this run has {value}; "
                "resume with the same setting, or start a new run from the checkpoint's policy folder"
            )
    _load_parameters(_trained(trainer), source, "parameters")
    if saved["reference_was_reset"] and trainer.reference is not None:
        _load_parameters(dict(trainer.reference.policy.inner.named_parameters()), source, "reference")
        trainer.reference.was_reset = True
    _restore_rank_tensors(trainer, load_file(_rank_file(source)))
    dist.barrier()


def _belongs_to(trainer: Trainer) -> dict[str, Any]:
    return {
        "actor.num_workers": dist.get_world_size(),
        "actor.deepspeed.zero_stage": trainer.engine.zero_optimization_stage(),
        "model.dtype": trainer.config.model.dtype,
        "actor.lora.rank": trainer.actor.lora.rank,
        "num_parameters": sum(getattr(p, "ds_numel", p.numel()) for p in _trained(trainer).values()),
        "reference_was_reset": trainer.reference is not None and trainer.reference.was_reset,
    }


def _trained(trainer: Trainer) -> dict[str, nn.Parameter]:
    return {name: p for name, p in trainer.policy.named_parameters() if p.requires_grad}


def _rank_file(directory: Path) -> Path:
    return directory / f"rank-{dist.get_rank():05d}.safetensors"


def _parts(names: Iterable[str]) -> Iterator[list[str]]:
    every = list(names)
    return (every[i : i + _BUCKET_PARAMETERS] for i in range(0, len(every), _BUCKET_PARAMETERS))


def _save_parameters(parameters: dict[str, nn.Parameter], target: Path, stem: str) -> None:
    for index, names in enumerate(_parts(parameters)):
        with gathered([parameters[n] for n in names]):
            if dist.get_rank() == 0:
                tensors = {n: parameters[n].detach().cpu().contiguous() for n in names}
                save_tensors(tensors, target / f"{stem}-{index:05d}.safetensors")


@torch.no_grad()
def _load_parameters(parameters: dict[str, nn.Parameter], source: Path, stem: str) -> None:
    for index, names in enumerate(_parts(parameters)):
        with (
            safe_open(source / f"{stem}-{index:05d}.safetensors", framework="pt") as file,
            gathered([parameters[n] for n in names], writer_rank=0),
        ):
            for name in names:
                parameters[name].data.copy_(file.get_tensor(name))


def _rank_tensors(trainer: Trainer) -> dict[str, torch.Tensor]:
    tensors = random_state(trainer.device)
    tensors["grad_norms"] = torch.tensor(trainer.grad_norms.norms, dtype=torch.float64)
    state = base_optimizer(trainer.engine).state
    for index, master in enumerate(master_parameters(trainer.engine)):
        tensors[f"{index}.master"] = master.detach().cpu().contiguous()
        for name in _MOMENTS:
            if name in state.get(master, {}):
                tensors[f"{index}.{name}"] = state[master][name].detach().cpu().contiguous()
    return tensors


@torch.no_grad()
def _restore_rank_tensors(trainer: Trainer, tensors: dict[str, torch.Tensor]) -> None:
    restore_random_state(tensors, trainer.device)
    trainer.grad_norms.restore(tensors.get("grad_norms", torch.empty(0)).tolist())  # absent: it starts empty
    state = base_optimizer(trainer.engine).state
    for index, master in enumerate(master_parameters(trainer.engine)):
        master.data.copy_(tensors[f"{index}.master"])
        for name in _MOMENTS:
            saved = tensors.get(f"{index}.{name}")
            if saved is None:
                state.pop(master, None)  # saved before the first step: AdamW starts afresh
            elif name in state[master]:
                state[master][name].copy_(saved)
            else:
                state[master][name] = saved.to(master.device)
