"""What the trainer's benchmarks train: a random model, packed batches at the quickstart's lengths, a real `Trainer`."""

import dataclasses
import math
import random
import socket
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

from actor.batch import Denominators, TrainSequence
from actor.model import load_policy
from actor.packing import pack, plan
from actor.process_group import device, join
from actor.trainer import Trainer
from configs.actor_schema import ActorConfig
from configs.schema import Config, ModelConfig
from pipeline.batch.batching import count, split_by_group

SHAPES = ("quickstart", "smollm2")
VERSION = 3  # of the weights being trained; tokens are up to two versions older
_PROMPT, _RESPONSE = (15, 35), (10, 32)  # tokens, as the quickstart's problems and solutions
_GROUP = 8


def save_random_model(shape: str, folder: Path) -> str:
    """A model folder of the quickstart's or SmolLM2-135M's shape, with random weights."""
    torch.manual_seed(0)
    config = {"quickstart": _quickstart, "smollm2": _smollm2}[shape]()
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    return str(folder)


def _quickstart() -> Qwen3Config:
    return Qwen3Config(
        vocab_size=64,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    )


def _smollm2() -> LlamaConfig:
    return LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )


def random_sequences(num_sequences: int, vocabulary: int, seed: int = 0) -> list[TrainSequence]:
    """`num_sequences` completions, 8 a prompt, versions VERSION−2 to VERSION, behavior logprobs near uniform."""
    rng = random.Random(seed)
    uniform = -math.log(vocabulary)

    def tokens(shortest: int, longest: int) -> tuple[int, ...]:
        return tuple(rng.randrange(vocabulary) for _ in range(rng.randint(shortest, longest)))

    sequences, prompt = [], ()
    for index in range(num_sequences):
        if index % _GROUP == 0:
            prompt = tokens(*_PROMPT)
        token_ids = tokens(*_RESPONSE)
        response = len(token_ids)
        sequences.append(
            TrainSequence(
                prompt_token_ids=prompt,
                response_token_ids=token_ids,
                mask=(1,) * response,
                behavior_logprobs=tuple(uniform + 0.1 * rng.random() for _ in range(response)),
                versions=tuple(sorted(rng.randint(VERSION - 2, VERSION) for _ in range(response))),
                advantages=(rng.gauss(0, 1),) * response,
                group=index // _GROUP,
            )
        )
    return sequences


@dataclasses.dataclass(frozen=True)
class StepInput:
    """The arguments of `Trainer.train_step` after the version, and their size."""

    minibatches: list[list[list[TrainSequence]]]  # [minibatch][micro-batch][sequence]
    denominators: list[Denominators]
    num_tokens: int

    @property
    def num_positions(self) -> int:
        """Positions that the network computes, padding included."""
        return self._row_lengths(share_prompts=False)

    @property
    def num_shared_positions(self) -> int:
        """The same with prompts that completions share computed once."""
        return self._row_lengths(share_prompts=True)

    def _row_lengths(self, share_prompts: bool) -> int:
        parts = [part for minibatch in self.minibatches for part in minibatch]
        return sum(pack(part, share_prompts).input_ids.numel() for part in parts)

    @property
    def num_padded_positions(self) -> int:
        """The same if each micro-batch were a rectangle as wide as its longest sequence."""
        parts = [[s.num_tokens for s in part] for minibatch in self.minibatches for part in minibatch]
        return sum(len(lengths) * max(lengths) for lengths in parts)


def step_input(sequences: list[TrainSequence], num_minibatches: int, max_tokens: int) -> StepInput:
    """As the pipeline divides and packs a batch for one rank."""
    num_groups = 1 + max(s.group for s in sequences)
    minibatches = split_by_group(sequences, num_groups, num_minibatches)
    tokens = sum(s.num_tokens for s in sequences)
    return StepInput(plan(minibatches, 1, max_tokens)[0], [count(m) for m in minibatches], tokens)


def join_alone() -> None:
    """A process group of this process alone, which DeepSpeed needs."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = int(s.getsockname()[1])
    join(0, 1, "127.0.0.1", port)


def make_trainer(model_path: str, actor: ActorConfig) -> Trainer:
    """A trainer of one rank in this process."""
    model = ModelConfig(path=model_path, dtype="float32")
    config = Config(model=model, actor=dataclasses.replace(actor))
    config.train.total_steps, config.train.batch_size = 1000, 16
    return Trainer(config, load_policy(model, actor), device())
