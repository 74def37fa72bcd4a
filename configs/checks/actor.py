"""Checks of the trainer: minibatches, token budgets, optimizer, ZeRO and LoRA."""

from configs.actor_schema import LoraConfig
from configs.errors import refused
from configs.schema import Config


def check_minibatches(config: Config) -> None:
    n, batch = config.actor.ppo_n_minibatches, config.train.batch_size
    if batch < n:
        raise refused(
            "actor.ppo_n_minibatches",
            n,
            f"is above train.batch_size={batch} groups, so that some would be empty",
            f"use {batch} or fewer",
        )
    if batch % n:
        fitting = max(d for d in range(1, n) if batch % d == 0)
        raise refused(
            "actor.ppo_n_minibatches",
            n,
            f"does not divide train.batch_size={batch} groups",
            f"use {fitting}, or a batch of {batch // n * n} or {(batch // n + 1) * n}",
        )


def check_ranks_have_work(config: Config) -> None:
    a = config.actor
    num_sequences = config.train.batch_size * config.rollout.sampling.n_samples // a.ppo_n_minibatches
    if num_sequences < a.num_workers:
        raise refused(
            "actor.num_workers",
            a.num_workers,
            f"is above the {num_sequences} sequences of a minibatch",
            "use fewer ranks or minibatches, or a larger batch",
        )


def check_token_budget(config: Config) -> None:
    longest = config.dataset.max_prompt_tokens + config.rollout.sampling.max_new_tokens
    if config.actor.max_tokens_per_microbatch < longest:
        raise refused(
            "actor.max_tokens_per_microbatch",
            config.actor.max_tokens_per_microbatch,
            f"is below dataset.max_prompt_tokens + rollout.sampling.max_new_tokens = {longest}, and no sequence is cut",
            f"raise it to {longest} or lower one of the two",
        )


def check_flash_attention(config: Config) -> None:
    if config.actor.attn_implementation == "flash_attention_2" and config.model.dtype == "float32":
        raise refused(
            "actor.attn_implementation",
            "flash_attention_2",
            "cannot compute in model.dtype=float32",
            "use auto, or model.dtype=bfloat16",
        )


def check_warmup(config: Config) -> None:
    steps, total = config.actor.optimizer.warmup_steps, config.train.total_steps
    if steps and steps >= total:
        raise refused("actor.optimizer.warmup_steps", steps, f"is not below train.total_steps={total}", "lower it")


def check_min_lr(config: Config) -> None:
    o = config.actor.optimizer
    if o.min_lr_ratio and o.schedule == "constant":
        raise refused(
            "actor.optimizer.min_lr_ratio",
            o.min_lr_ratio,
            "has no effect under actor.optimizer.schedule=constant",
            "use linear or cosine, or leave it at 0",
        )


def check_offload(config: Config) -> None:
    d = config.actor.deepspeed
    if d.offload_optimizer and d.zero_stage == 0:
        raise refused(
            "actor.deepspeed.offload_optimizer",
            True,
            "needs ZeRO, but actor.deepspeed.zero_stage=0",
            "use stage 1, 2 or 3, or switch it off",
        )


def check_lora(config: Config) -> None:
    lora, default = config.actor.lora, LoraConfig()
    if lora.dropout:
        raise refused(
            "actor.lora.dropout", lora.dropout, "makes the trainer's logprobs differ from the sampler's", "use 0"
        )
    if lora.rank == 0:
        for name in ("alpha", "target_modules"):
            if getattr(lora, name) != getattr(default, name):
                raise refused(
                    f"actor.lora.{name}",
                    getattr(lora, name),
                    "has no effect under actor.lora.rank=0",
                    "set a rank or drop it",
                )
    elif not lora.target_modules:
        raise refused("actor.lora.target_modules", [], "leaves nothing to train", "name modules such as q_proj")


ACTOR_CHECKS = (
    check_minibatches,
    check_ranks_have_work,
    check_token_budget,
    check_flash_attention,
    check_warmup,
    check_min_lr,
    check_offload,
    check_lora,
)
