"""Steps of TRL's GRPOTrainer, timed. Runs by path in TRL's own environment, where nothing of proxrl's trainer is.

    python trl_steps.py SETTINGS.json

`SETTINGS.json` holds the fields of `Settings`; a line per step goes to its `out`. TRL generates with transformers'
`generate`, the fastest of what it has on a CPU: its vLLM server takes weights over CUDA only, its vLLM in the trainer's
process loads them bare, which the packed weights of vLLM's CPU build refuse, and transformers' continuous batching is
slower there.
"""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from rollout.rewards.gsm8k import gsm8k_reward


@dataclass(frozen=True)
class Settings:
    """What the comparison holds equal."""

    model: str
    prompts: str  # JSON lines with prompt, token_ids, answer
    out: str  # a JSON line per step
    steps: int
    seed: int
    threads: int
    prompts_per_step: int
    completions_per_prompt: int
    max_new_tokens: int
    temperature: float
    lr: float
    weight_decay: float
    max_grad_norm: float
    eps_clip: float


def reward(prompts: list[str], completions: list[str], answer: list[str], **_: Any) -> list[float]:
    """The quickstart's reward, in the form that TRL calls."""
    return [gsm8k_reward(p, c, a, {}) for p, c, a in zip(prompts, completions, answer, strict=True)]


class Clock(TrainerCallback):
    """Writes the seconds of every step, from the end of the step before, with what TRL logs of it."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._mark = self._seconds = 0.0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._mark = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        now = time.perf_counter()
        self._seconds, self._mark = now - self._mark, now

    def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
        if "reward" in logs:
            step = {"seconds": self._seconds, "tokens": logs["completions/mean_length"], "reward": logs["reward"]}
            with self._out.open("a") as file:
                file.write(json.dumps(step) + "\n")


def grpo_config(settings: Settings) -> GRPOConfig:
    """TRL's fastest settings for this job: float32, one micro-batch per step, nothing computed twice."""
    return GRPOConfig(
        output_dir=str(Path(settings.out).with_name("trl")),
        max_steps=settings.steps,
        seed=settings.seed,
        per_device_train_batch_size=settings.prompts_per_step * settings.completions_per_prompt,
        num_generations=settings.completions_per_prompt,
        max_completion_length=settings.max_new_tokens,
        temperature=settings.temperature,
        learning_rate=settings.lr,
        lr_scheduler_type="constant",
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        epsilon=settings.eps_clip,
        beta=0.0,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        save_strategy="no",
        report_to=[],
        logging_steps=1,
        disable_tqdm=True,
    )


def main() -> None:
    settings = Settings(**json.loads(Path(sys.argv[1]).read_text()))
    torch.set_num_threads(settings.threads)
    rows = [json.loads(line) for line in Path(settings.prompts).read_text().splitlines()]
    tokenizer = AutoTokenizer.from_pretrained(settings.model)
    differing = [r["prompt"] for r in rows if tokenizer(r["prompt"])["input_ids"] != r["token_ids"]]
    assert not differing, f"tokenized otherwise here than by proxrl: {differing[0]!r}"
    trainer = GRPOTrainer(
        model=settings.model,
        processing_class=tokenizer,
        reward_funcs=reward,
        args=grpo_config(settings),
        train_dataset=Dataset.from_list([{"prompt": r["prompt"], "answer": r["answer"]} for r in rows]),
        callbacks=[Clock(Path(settings.out))],
    )
    trainer.train()


if __name__ == "__main__":
    main()
