"""Trained tokens per second against bare PyTorch on the same packed batches.

    python -m benchmarks.trainer_speed [--json OUT] [--shape quickstart|smollm2] [--threads N] [--clock cpu]

Bare PyTorch is the Hugging Face model with the same attention over the same packed rows, logits of the response rows
only, the clipped policy loss, the gradient clipped, one fused AdamW step, and no metric. The trainer computes the same
step through DeepSpeed, with the decoupled loss and all its metrics. Further cases compute a prompt for each of its
completions again, as most trainers do.
"""

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from actor.attention import PACKED_ATTENTION
from actor.batch import MicroBatch
from actor.packing import pack
from benchmarks.measurement import median_ratio, seconds_by_case
from benchmarks.outcome import Outcome, Target, arguments, compute_options, show
from benchmarks.quiet import run_quietly
from benchmarks.training_cases import (
    SHAPES,
    VERSION,
    StepInput,
    join_alone,
    make_trainer,
    random_sequences,
    save_random_model,
    step_input,
)
from configs.actor_schema import ActorConfig

BARE = "bare PyTorch"
CLIP = 0.2


def bare_step(
    model_path: str, actor: ActorConfig, data: StepInput, attention: str, share_prompts: bool
) -> Callable[[], None]:
    """One step of plain PyTorch. `attention` is the trainer's own, or `sdpa`, which masks the packed row.

    `share_prompts`: over the rows of the trainer, with each prompt once; else a prompt before every completion.
    """
    model = AutoModelForCausalLM.from_pretrained(model_path, attn_implementation=attention, dtype=torch.float32).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=actor.optimizer.lr, fused=True)

    def loss_of(batch: MicroBatch) -> torch.Tensor:
        packed = {"row": batch.row} if attention == PACKED_ATTENTION else {}
        output: Any = model(
            input_ids=batch.input_ids[None],
            position_ids=batch.position_ids[None],
            logits_to_keep=batch.predictor_index,
            use_cache=False,
            **packed,
        )
        targets = batch.input_ids[batch.response_index]
        logprobs = output.logits[0].log_softmax(-1).gather(1, targets[:, None]).squeeze(1)
        ratio, advantages = (logprobs - logprobs.detach()).exp(), batch.tokens.advantages
        clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
        return -torch.minimum(ratio * advantages, clipped * advantages).sum()

    def step() -> None:
        for part in data.minibatches[0]:
            (loss_of(pack(part, share_prompts)) / data.denominators[0].num_tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), actor.optimizer.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()

    return step


def trainer_step(model_path: str, actor: ActorConfig, data: StepInput) -> Callable[[], object]:
    """The same by the trainer, everything it does in a run included."""
    trainer = make_trainer(model_path, actor)
    return lambda: trainer.train_step(VERSION, data.minibatches, data.denominators)


def main() -> None:
    parser = arguments(__doc__, repeats=7)
    compute_options(parser)
    parser.add_argument("--shape", choices=SHAPES, default="quickstart", help="of the model (default quickstart)")
    parser.add_argument("--sequences", type=int, default=128, help="completions per step (default 128)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    join_alone()
    actor = ActorConfig(prox_logp_method="reuse")
    with tempfile.TemporaryDirectory() as folder:
        path = save_random_model(options.shape, Path(folder))
        vocabulary = AutoModelForCausalLM.from_pretrained(path).config.vocab_size
        sequences = random_sequences(options.sequences, vocabulary)
        data = step_input(sequences, 1, actor.max_tokens_per_microbatch)
        cases = {
            "proxrl trainer": trainer_step(path, actor, data),
            BARE: bare_step(path, actor, data, PACKED_ATTENTION, share_prompts=True),
            f"{BARE}, a prompt a completion": bare_step(path, actor, data, PACKED_ATTENTION, share_prompts=False),
            f"{BARE}, masked sdpa": bare_step(path, actor, data, "sdpa", share_prompts=False),
        }
        seconds = seconds_by_case(cases, options.repeats, options.clock)
    rows: list[dict[str, Any]] = [
        {
            "step": name,
            "seconds": statistics.median(taken),
            "tokens/s": data.num_tokens / statistics.median(taken),
            "speed of bare": median_ratio(seconds[BARE], taken),
        }
        for name, taken in seconds.items()
    ]
    wasted = 1 - data.num_tokens / data.num_positions
    targets = [
        Target("speed of bare PyTorch", rows[0]["speed of bare"], 0.90, True),
        Target("padding, of the trained positions", wasted, 0.02, False),
    ]
    spared = 1 - data.num_shared_positions / data.num_positions
    padded = 1 - data.num_tokens / data.num_padded_positions
    notes = [
        f"Rows padded to the longest sequence of each micro-batch would waste {padded:.1%} of the positions.",
        f"Prompts computed once for all of their completions spare {spared:.1%} of them.",
    ]
    title = f"Training step: {options.sequences} completions, {data.num_tokens} tokens, shape {options.shape}"
    show(Outcome(title, rows, targets, notes), options.json)


if __name__ == "__main__":
    run_quietly(main)
