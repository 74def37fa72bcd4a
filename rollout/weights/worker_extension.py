"""What our engine adapter calls inside vLLM's worker processes, next to vLLM's own methods."""

from collections.abc import Callable
from typing import Any

import torch

from exchange.freed_memory import give_back_when_due
from rollout.errors import WeightMismatch
from rollout.weights.check import compare_function, compare_values, local_shard, plan_sources


class WeightWorker:
    """Mixed into vLLM's worker class (`worker_extension_cls`); `self` is the worker."""

    weight_transfer_engine: Any
    model_runner: Any
    parallel_config: Any
    rank: int

    def describe_model(self) -> dict[str, str]:
        """What the model computes with: class, type of the body's weights, type of the lm_head's product."""
        model = self.model_runner.get_model()
        head = getattr(getattr(model, "logits_processor", None), "head_dtype", None)
        return {
            "class": type(model).__name__,
            "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
            "head_dtype": str(head).removeprefix("torch."),
        }

    @torch.no_grad()
    def check_weights(self, version: int) -> int:
        """Compare the model with the tensors of the update just loaded; returns how many were compared.

        Raises:
            WeightMismatch: with every tensor that differs.
        """
        sent: dict[str, torch.Tensor] = self.weight_transfer_engine.sent
        model = self.model_runner.get_model()
        if not sent:
            raise WeightMismatch("no weights have been received")
        problems = check_model(model, sent, version, self.rank, self.parallel_config.tensor_parallel_size)
        num_checked = len(sent)
        self.weight_transfer_engine.sent = {}
        if problems:
            raise WeightMismatch("; ".join(f"{name}: {what}" for name, what in problems.items()))
        give_back_when_due(version)
        return num_checked


def check_model(
    model: torch.nn.Module, sent: dict[str, torch.Tensor], version: int, tp_rank: int, tp_size: int
) -> dict[str, str]:
    """Problems by parameter; empty when the model holds exactly what was sent."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    first_name: dict[int, str] = {}
    aliases = {name: first_name[id(p)] for name, p in parameters.items() if first_name.setdefault(id(p), name) != name}
    packed = getattr(model, "packed_modules_mapping", {})
    sources = plan_sources(list(parameters), list(sent), packed, aliases, _rename(model))
    problems: dict[str, str] = {}
    for name, parameter in parameters.items():
        module = model.get_submodule(name.rpartition(".")[0])
        parts = [local_shard(module, i, sent[s], tp_rank, tp_size) for i, s in enumerate(sources[name])]
        expected = parts[0] if len(parts) == 1 else torch.cat(parts)
        if problem := _compare(model, module, name, parameter, expected, version):
            problems[name] = problem
    return problems


def _rename(model: torch.nn.Module) -> Callable[[str], str | None]:
    """Published names → the engine's; vLLM before 0.32 has no rename mapper, its mapper renames itself."""
    mapper: Any = getattr(model, "hf_to_vllm_mapper", None)
    if mapper is None:
        return _same
    if hasattr(mapper, "get_rename_mapper"):
        rename: Callable[[str], str | None] = mapper.get_rename_mapper().map_name
        return rename
    older: Callable[[str], str | None] = mapper._map_name
    return older


def _same(name: str) -> str | None:
    return name


def _compare(
    model: torch.nn.Module,
    module: torch.nn.Module,
    name: str,
    parameter: torch.Tensor,
    expected: torch.Tensor,
    version: int,
) -> str | None:
    head = module is getattr(model, "lm_head", None)
    looked_up = hasattr(module, "shard_indices") and not head  # an embedding multiplies with nothing
    repacked = name.endswith(".weight") and hasattr(module, "cpu_linear") and expected.ndim == 2 and not looked_up
    if (parameter.numel() or not repacked) and (problem := compare_values(parameter, expected)):
        return problem
    if not repacked:
        return None
    apply = _head(model, parameter.dtype) if head else _linear(module)
    dtype = _coarser(parameter.dtype, _head_dtype(model)) if head else parameter.dtype
    return compare_function(apply, _built_for(module), expected.to(parameter.device), dtype, version)


def _built_for(module: Any) -> tuple[int, int]:
    """This rank's (outputs, inputs) of a linear layer or lm_head; its packed weight no longer tells."""
    if hasattr(module, "shard_indices"):
        return module.num_embeddings_per_partition, module.embedding_dim
    inputs = getattr(module, "input_size_per_partition", module.input_size)
    return getattr(module, "output_size_per_partition", module.output_size), inputs


def _linear(module: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: module.quant_method.apply(module, x, None)


def _head(model: Any, dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    """The lm_head as sampling and scoring use it on a body of `dtype`, in `head_dtype` where this vLLM has one."""
    if hasattr(model.logits_processor, "_apply_head"):
        return lambda x: model.logits_processor._apply_head(model.lm_head, x.to(dtype), None)
    return _linear(model.lm_head)


def _head_dtype(model: Any) -> torch.dtype | None:
    found: torch.dtype | None = getattr(getattr(model, "logits_processor", None), "head_dtype", None)
    return found


def _coarser(body: torch.dtype, head: torch.dtype | None) -> torch.dtype:
    """The type that the head's product is rounded to: an allowed bf16 head rounds the weights of an fp32 body."""
    return head if head is not None and torch.finfo(head).eps > torch.finfo(body).eps else body
