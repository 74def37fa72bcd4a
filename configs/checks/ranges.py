"""The range that every number of the config must lie in. Data, and one check over it."""

import math
from dataclasses import dataclass
from typing import Any

from configs.errors import refused
from configs.keys import leaves, value_of
from configs.schema import Config


@dataclass(frozen=True)
class Range:
    """low ≤ value ≤ high, with `<` where open. `remedy` is added to the generic one."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    remedy: str | None = None

    def holds(self, value: float) -> bool:
        """Whether `value` is finite and is in the range."""
        if not math.isfinite(value):
            return False
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return above and below

    def __str__(self) -> str:
        parts = []
        if self.low > -math.inf:
            parts.append(f"{'>' if self.low_open else '≥'} {self.low:g}")
        if self.high < math.inf:
            parts.append(f"{'<' if self.high_open else '≤'} {self.high:g}")
        return " and ".join(parts) or "finite"


POSITIVE = Range(0, low_open=True)
NOT_NEGATIVE = Range(0)
AT_LEAST_ONE = Range(1)
FRACTION = Range(0, 1)
BELOW_ONE = Range(0, 1, high_open=True)
ANY = Range()

RANGES: dict[str, Range] = {
    "run.seed": NOT_NEGATIVE,
    "dataset.max_prompt_tokens": AT_LEAST_ONE,
    "dataset.limit": Range(1, remedy="use null for all rows"),
    "reward.num_workers": AT_LEAST_ONE,
    "reward.timeout_s": POSITIVE,
    "reward.max_failure_fraction": FRACTION,
    "consistency.every": Range(0, remedy="use 0 for no parity samples"),
    "consistency.num_samples": AT_LEAST_ONE,
    "consistency.limit": POSITIVE,
    "rollout.num_workers": AT_LEAST_ONE,
    "rollout.tensor_parallel_size": AT_LEAST_ONE,
    "rollout.max_head_offpolicyness": Range(0, remedy="use 0 for synchronous training"),
    "rollout.max_concurrent_rollouts": AT_LEAST_ONE,
    "rollout.request_timeout_s": POSITIVE,
    "rollout.startup_timeout_s": POSITIVE,
    "rollout.max_worker_restarts": Range(0, remedy="use 0 to give up a worker at its first failure"),
    "rollout.sampling.n_samples": AT_LEAST_ONE,
    "rollout.sampling.temperature": Range(0, low_open=True, remedy="greedy samples have no logprob to train on"),
    "rollout.sampling.top_p": Range(0, 1, low_open=True, remedy="use 1 to keep every token"),
    "rollout.sampling.top_k": Range(0, remedy="use 0 to keep every token"),
    "rollout.sampling.max_new_tokens": AT_LEAST_ONE,
    "rollout.weight_sync.timeout_s": POSITIVE,
    "rollout.weight_sync.bucket_mib": AT_LEAST_ONE,
    "rollout.weight_sync.probe_tokens": Range(2, remedy="the first token has no logprob"),
    "rollout.weight_sync.probe_limit": Range(0, low_open=True, remedy="use null for the limit of model.dtype"),
    "actor.num_workers": AT_LEAST_ONE,
    "actor.eps_clip": Range(0, 1, low_open=True, high_open=True, remedy="at 1 nothing is ever clipped from below"),
    "actor.eps_clip_higher": Range(0, low_open=True, remedy="use null for eps_clip"),
    "actor.c_clip": Range(1, low_open=True, remedy="use null for no dual clip"),
    "actor.sapo_temperature_pos": POSITIVE,
    "actor.sapo_temperature_neg": POSITIVE,
    "actor.m2_threshold": Range(0, low_open=True, remedy="use null for no filter"),
    "actor.loss_agg_const": POSITIVE,
    "actor.entropy_coef": NOT_NEGATIVE,
    "actor.ppo_n_minibatches": AT_LEAST_ONE,
    "actor.max_tokens_per_microbatch": AT_LEAST_ONE,
    "actor.logprob_chunk_tokens": AT_LEAST_ONE,
    "actor.num_threads": Range(0, remedy="use 0 to let the run divide the cores"),
    "actor.timeout_s": POSITIVE,
    "actor.kl.coef": Range(0, remedy="use 0 for no KL term"),
    "actor.kl.reset_ref_every": Range(0, remedy="use 0 to keep the reference"),
    "actor.behavior_correction.lower": Range(0, 1, remedy="above 1 it would filter tokens that are on-policy"),
    "actor.behavior_correction.upper": Range(1, remedy="below 1 it would filter tokens that are on-policy"),
    "actor.behavior_correction.token_veto": Range(0, 1, low_open=True, high_open=True, remedy="use null for no veto"),
    "actor.advantage.gamma": FRACTION,
    "actor.advantage.lam": FRACTION,
    "actor.advantage.reward_scale": POSITIVE,
    "actor.advantage.reward_bias": ANY,
    "actor.advantage.reward_clip": Range(0, low_open=True, remedy="use null for no clip"),
    "actor.advantage.overlong_buffer": NOT_NEGATIVE,
    "actor.advantage.overlong_penalty": NOT_NEGATIVE,
    "actor.optimizer.lr": NOT_NEGATIVE,
    "actor.optimizer.weight_decay": NOT_NEGATIVE,
    "actor.optimizer.beta1": BELOW_ONE,
    "actor.optimizer.beta2": BELOW_ONE,
    "actor.optimizer.eps": POSITIVE,
    "actor.optimizer.max_grad_norm": Range(0, remedy="use 0 for no clip"),
    "actor.optimizer.max_grad_norm_factor": Range(1, low_open=True, remedy="use null to skip no finite gradient"),
    "actor.optimizer.max_skipped_steps": Range(0, remedy="use 0 for no limit"),
    "actor.optimizer.warmup_steps": NOT_NEGATIVE,
    "actor.optimizer.min_lr_ratio": FRACTION,
    "actor.lora.rank": Range(0, remedy="use 0 to train all weights"),
    "actor.lora.alpha": POSITIVE,
    "actor.lora.dropout": FRACTION,
    "train.total_steps": AT_LEAST_ONE,
    "train.batch_size": AT_LEAST_ONE,
    "eval.every": Range(0, remedy="use 0 to evaluate before the first and after the last step only"),
    "eval.num_samples": Range(0, remedy="use 0 for no evaluation"),
    "eval.temperature": Range(0, remedy="use 0 for greedy"),
    "eval.max_new_tokens": Range(1, remedy="use null for rollout.sampling.max_new_tokens"),
    "checkpoint.every": Range(0, remedy="use 0 for one checkpoint at the end"),
    "checkpoint.keep": AT_LEAST_ONE,
}


def check_ranges(config: Config) -> None:
    """Every number is in its range and is finite."""
    for key, leaf in leaves().items():
        value: Any = value_of(config, key)
        if value is None or leaf.choices or leaf.type not in (int, float):
            continue
        allowed = RANGES.get(key, ANY)
        if not allowed.holds(value):
            default = "choose one in that range" if leaf.mandatory else f"the default is {leaf.default}"
            raise refused(key, value, f"must be {allowed}", allowed.remedy or default)
