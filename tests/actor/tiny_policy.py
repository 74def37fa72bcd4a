"""A tiny random Qwen2 and random training sequences, the same in every process of a test."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from actor.attention import PACKED_ATTENTION, register_packed_attention
from actor.batch import Denominators, TrainSequence
from actor.model import PolicyNetwork, build_policy
from configs.actor_schema import ActorConfig
from configs.schema import Config, ModelConfig

VOCABULARY = 50


def tiny_model(tied: bool = True, attention: str = "sdpa", seed: int = 0) -> Qwen2ForCausalLM:
    """Hidden 32, 2 layers, float32."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=tied,
        max_position_embeddings=256,
        pad_token_id=None,
    )
    model = Qwen2ForCausalLM._from_config(config, attn_implementation=attention)
    for parameter in model.parameters():  # sharper than the default, so that errors show
        parameter.data.mul_(4.0) if parameter.ndim == 2 else parameter.data.add_(0.1 * torch.randn(parameter.shape))
    return model


def save_tiny_model(directory: Path, tied: bool = True) -> str:
    """Write the model as a user's folder would hold it."""
    tiny_model(tied).save_pretrained(directory)
    return str(directory)


def tiny_config(model_path: str, actor: ActorConfig, dtype: str = "float32", total_steps: int = 10) -> Config:
    config = Config(model=ModelConfig(path=model_path, dtype=dtype), actor=actor)
    config.train.total_steps, config.train.batch_size = total_steps, 4
    return config


def sequences(n: int, seed: int = 0, version: int = 3, longest: int = 12) -> list[TrainSequence]:
    """`n` sequences with prompts of 1 to 9 tokens, responses of 1 to `longest`, versions up to `version`."""
    rng = random.Random(seed)
    out = []
    for i in range(n):
        p, r = rng.randint(1, 9), rng.randint(1, longest)
        out.append(
            TrainSequence(
                prompt_token_ids=tuple(rng.randrange(VOCABULARY) for _ in range(p)),
                response_token_ids=tuple(rng.randrange(VOCABULARY) for _ in range(r)),
                mask=tuple(int(rng.random() < 0.9) for _ in range(r)),
                behavior_logprobs=tuple(-4.0 + 0.3 * rng.random() for _ in range(r)),
                versions=tuple(sorted(rng.randint(max(0, version - 2), version) for _ in range(r))),
                advantages=(rng.uniform(-1, 1),) * r,
                group=i // 2,
            )
        )
    return out


def sharing_prompts(batch: list[TrainSequence], n: int) -> list[TrainSequence]:
    """The same sequences, every `n` of them as completions of one prompt."""
    return [replace(s, prompt_token_ids=batch[i // n * n].prompt_token_ids, group=i // n) for i, s in enumerate(batch)]


def packed_policy(attention: str = PACKED_ATTENTION, tied: bool = True, **actor: Any) -> PolicyNetwork:
    """The tiny model as the trainer has it; keywords are settings of `actor`."""
    register_packed_attention()
    return build_policy(tiny_model(tied, attention), ActorConfig(logprob_chunk_tokens=5, **actor))


def single_logprobs(model: Qwen2ForCausalLM, sequence: TrainSequence, temperature: float) -> torch.Tensor:
    """float64 logprobs of one sequence's response by a plain forward: rows P-1 … P-1+R-1."""
    ids = torch.tensor([sequence.prompt_token_ids + sequence.response_token_ids])
    p, r = len(sequence.prompt_token_ids), len(sequence.response_token_ids)
    log_p = (model(ids).logits[0].double() / temperature).log_softmax(-1)
    return log_p[p - 1 : p - 1 + r].gather(1, torch.tensor(sequence.response_token_ids)[:, None])[:, 0]


def denominators(parts: list[TrainSequence]) -> Denominators:
    return Denominators(float(sum(sum(s.mask) for s in parts)), float(sum(any(s.mask) for s in parts)))
