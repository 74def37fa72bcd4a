"""Stands for the trainer: publishes a Hugging Face model's weights and scores sequences with it in fp32."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from exchange.types import Completion, TensorMeta, WeightUpdate
from rollout.weights.manifest import tensor_sha256

PROBE = tuple(range(5, 37))


class HfPolicy:
    """A Hugging Face model on the CPU."""

    def __init__(self, folder: Path) -> None:
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    @torch.no_grad()
    def train_a_little(self, seed: int, scale: float = 0.01) -> None:
        """Move every weight, norms and biases included."""
        generator = torch.Generator().manual_seed(seed)
        for p in self.model.parameters():
            p.add_(torch.randn(p.shape, generator=generator) * scale)

    @torch.no_grad()
    def logits(self, token_ids: Sequence[int]) -> torch.Tensor:
        """[N, V] fp32."""
        return self.model(torch.tensor([list(token_ids)])).logits[0].float()

    def score(self, token_ids: Sequence[int]) -> tuple[float, ...]:
        """Of tokens 1..N-1 at temperature 1."""
        logprobs = self.logits(token_ids).log_softmax(-1)
        return tuple(float(logprobs[i, t]) for i, t in enumerate(token_ids[1:]))

    def response_logprobs(
        self,
        prompt: Sequence[int],
        completion: Completion,
        temperature: float,
        keep: Callable[[int, torch.Tensor], torch.Tensor] = lambda j, logits: logits,
    ) -> list[float]:
        """Of the completion's tokens; `keep` may mask the logits of response token j."""
        return self.response_logprobs_of(prompt, completion.token_ids, temperature, keep)

    def response_logprobs_of(
        self,
        prompt: Sequence[int],
        response: Sequence[int],
        temperature: float,
        keep: Callable[[int, torch.Tensor], torch.Tensor] = lambda j, logits: logits,
    ) -> list[float]:
        """Of the response's tokens."""
        logits = self.logits([*prompt, *response]) / temperature
        rows = [keep(j, logits[len(prompt) - 1 + j]) for j in range(len(response))]
        return [float(row.log_softmax(-1)[t]) for row, t in zip(rows, response, strict=True)]

    def publish(self, version: int, folder: Path) -> WeightUpdate:
        """In two bucket files, so that an update is more than one."""
        tensors = {n: p.detach().clone().contiguous() for n, p in self.model.named_parameters()}
        names = list(tensors)
        paths = []
        for i, part in enumerate((names[: len(names) // 2], names[len(names) // 2 :])):
            path = folder / f"v{version}-{i}.safetensors"
            save_file({n: tensors[n] for n in part}, path)
            paths.append(str(path))
        metas = tuple(
            TensorMeta(n, str(t.dtype).removeprefix("torch."), tuple(t.shape), tensor_sha256(t))
            for n, t in tensors.items()
        )
        return WeightUpdate(version, tuple(paths), metas, PROBE, self.score(PROBE))


def largest_difference(a: Sequence[float], b: Sequence[float]) -> float:
    assert len(a) == len(b) > 0
    return max(abs(x - y) for x, y in zip(a, b, strict=True))
