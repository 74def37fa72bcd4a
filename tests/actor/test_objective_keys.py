"""Over all pairs of objective and key: a key that is said to be ignored changes nothing, any other changes the loss."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from actor.objective import update_loss
from actor.proximal import proximal_logprobs
from actor.second_moment import second_moment_cut, second_moment_mask
from configs.actor_schema import ActorConfig, BehaviorCorrectionConfig, KLConfig
from configs.checks.objective_keys import IGNORED_BY, OBJECTIVES, REQUIREMENTS
from tests.actor.random_batches import random_case

# Long sequences far apart, so that every bound and clip is met on both sides.
CASE = random_case(21, num_sequences=12, spread=0.8)

# Every key works here: weights are bounded, versions counted, KL and entropy in the loss.
BASE = ActorConfig(
    prox_logp_method="loglinear",
    prox_version_clock="step",
    eps_clip=0.2,
    loss_agg_mode="token-sum-const",
    loss_agg_const=8.0,
    entropy_coef=0.01,
    kl=KLConfig(coef=0.1),
    behavior_correction=BehaviorCorrectionConfig(mode="truncate", lower=0.8, upper=1.25),
)

OTHER: dict[str, Any] = {
    "use_decoupled_loss": False,
    "prox_logp_method": "linear",
    "prox_version_clock": "lagged",
    "eps_clip": 0.1,
    "eps_clip_higher": 0.5,
    "c_clip": 1.2,
    "sapo_temperature_pos": 2.0,
    "sapo_temperature_neg": 3.0,
    "m2_threshold": 0.05,
    "loss_agg_mode": "token-mean",
    "loss_agg_const": 9.0,
    "entropy_coef": 0.02,
    "kl.type": "k3",
    "kl.coef": 0.2,
    "kl.place": "reward",
    "behavior_correction.mode": "mask",
    "behavior_correction.level": "sequence",
    "behavior_correction.lower": 0.9,
    "behavior_correction.upper": 1.1,
    "behavior_correction.token_veto": 0.4,
}


def changed(config: ActorConfig, key: str, value: Any) -> ActorConfig:
    name, _, inner = key.partition(".")
    return replace(config, **{name: changed(getattr(config, name), inner, value) if inner else value})


@dataclass(frozen=True)
class Result:
    loss: float
    gradient: torch.Tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self.loss == other.loss and torch.equal(self.gradient, other.gradient)


def train(config: ActorConfig, minibatch: int = 1) -> Result:
    """What a trainer does with one minibatch, all settings of `config` applied."""
    tokens, logprobs = CASE.tokens, CASE.logprobs.clone().requires_grad_()
    proximal, keep = None, None
    if config.use_decoupled_loss:
        proximal = proximal_logprobs(
            config.prox_logp_method, tokens, logprobs, CASE.proximal, 3, minibatch, 4, config.prox_version_clock
        )
        if config.m2_threshold is not None:
            log_ratios = CASE.proximal - tokens.behavior_logprobs
            keep = second_moment_mask(log_ratios, second_moment_cut(log_ratios[tokens.mask], config.m2_threshold))
    arguments = (logprobs, proximal, CASE.ref, CASE.entropy, CASE.denominators, config, keep)
    loss, _ = update_loss(tokens, *arguments)
    return Result(float(loss.detach()), torch.autograd.grad(loss, logprobs)[0])


@pytest.mark.parametrize("key", OTHER)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_pair(objective, key):
    config = replace(BASE, objective=objective)
    if (objective, key) == ("gspo", "m2_threshold"):
        assert objective in IGNORED_BY[key]
        with pytest.raises(AssertionError, match="GSPO has no tokens to drop"):
            train(changed(config, key, OTHER[key]))
        return
    same = train(changed(config, key, OTHER[key])) == train(config)
    assert same == (objective in IGNORED_BY.get(key, ())), f"{key} under {objective}"


# Keys that act outside the loss, so that no perturbation of it shows them.
ELSEWHERE = {"kl.reset_ref_every", "advantage.overlong_penalty"}


IN_THE_LOSS = [r for r in REQUIREMENTS if r.key not in ELSEWHERE and r.key != "m2_threshold"]


@pytest.mark.parametrize("requirement", IN_THE_LOSS, ids=lambda r: f"{r.key} needs {r.needs}")
def test_every_requirement_names_a_key_without_effect(requirement):
    unmet = {
        "use_decoupled_loss": False,
        "prox_logp_method": "recompute",
        "behavior_correction.mode": "none",
        "loss_agg_mode": "seq-mean-token-sum",
        "kl.coef": 0.0,
    }
    for objective in requirement.objectives:
        config = changed(replace(BASE, objective=objective), requirement.needs, unmet[requirement.needs])
        perturbed = changed(config, requirement.key, OTHER[requirement.key])
        assert train(perturbed) == train(config), objective


def test_every_key_of_the_objective_is_covered():
    named = set(IGNORED_BY) | {r.key for r in REQUIREMENTS} | {r.needs for r in REQUIREMENTS}
    assert named - ELSEWHERE - {"advantage.overlong_buffer"} <= set(OTHER)
