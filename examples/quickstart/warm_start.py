"""Supervised warm start: a small Qwen3 that knows the format and some arithmetic, but mostly guesses.

Demonstrations are worked solutions first, to learn the arithmetic; in the last part most are bare results, so that the
model comes to prefer a guess, which rarely comes out right. It is for reinforcement learning to find out that working
it out pays.
"""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.utils.logging import disable_progress_bar

from examples.quickstart.problems import problems
from examples.quickstart.tokenizer import save_tokenizer

IGNORED = -100  # label that Hugging Face models leave out of the loss


@dataclass(frozen=True)
class WarmStart:
    """Settings of the warm start; they are part of the cache key of the model's folder."""

    steps: int = 450
    batch_size: int = 32
    lr: float = 2e-3
    warmup_steps: int = 30
    guess_fraction: float = 0.7  # of the demonstrations after `guess_from`
    guess_from: float = 0.7  # of the steps
    hidden_size: int = 128
    initializer_range: float = 0.06  # the usual 0.02 is for wide models and learns half as fast in this one
    num_layers: int = 4


def new_model(tokenizer: PreTrainedTokenizerFast, settings: WarmStart) -> Qwen3ForCausalLM:
    """An untrained Qwen3 with tied embeddings, about one million parameters."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden_size,
        intermediate_size=3 * settings.hidden_size,
        num_hidden_layers=settings.num_layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=settings.hidden_size // 4,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        initializer_range=settings.initializer_range,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)


def batches(tokenizer: PreTrainedTokenizerFast, settings: WarmStart, seed: int) -> Iterator[dict[str, torch.Tensor]]:
    """The batches of all steps: input_ids and labels, both [B, T]; prompts have no label.

    Padding stands on the right, where causal attention never looks from a token that counts: no mask is needed.
    """
    rng = random.Random(seed)
    stream = problems(seed, held_out=False)
    for step in range(settings.steps):
        guesses = settings.guess_fraction if step >= settings.guess_from * settings.steps else 0.0
        rows = []
        for _ in range(settings.batch_size):
            problem = next(stream)
            response = problem.guess if rng.random() < guesses else problem.worked
            prompt_ids = tokenizer(problem.question)["input_ids"]
            response_ids = [*tokenizer(response)["input_ids"], tokenizer.eos_token_id]
            rows.append((prompt_ids + response_ids, [IGNORED] * len(prompt_ids) + response_ids))
        width = max(len(ids) for ids, _ in rows)
        yield {
            "input_ids": torch.tensor([ids + [tokenizer.pad_token_id] * (width - len(ids)) for ids, _ in rows]),
            "labels": torch.tensor([labels + [IGNORED] * (width - len(labels)) for _, labels in rows]),
        }


def train(model: Qwen3ForCausalLM, stream: Iterator[dict[str, torch.Tensor]], settings: WarmStart) -> None:
    """Train in place with AdamW, linear warm-up and linear decay; prints progress."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / settings.warmup_steps, 1 - step / settings.steps)
    )
    started = time.monotonic()
    for step, batch in enumerate(stream, start=1):
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % 50 == 0 or step == settings.steps:
            elapsed = time.monotonic() - started
            print(f"warm start: step {step}/{settings.steps}  loss {loss.item():.3f}  {elapsed:.0f} s", flush=True)


def warm_start(folder: Path, seed: int, settings: WarmStart) -> None:
    """Make the small model for `seed` and save it with its tokenizer in `folder`."""
    torch.manual_seed(seed)
    # One thread: the same weights on every machine, and a second one brings little to a model of this size.
    torch.set_num_threads(1)
    tokenizer = save_tokenizer(folder)
    model = new_model(tokenizer, settings)
    train(model, batches(tokenizer, settings, seed), settings)
    disable_progress_bar()  # one line of progress is enough
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
