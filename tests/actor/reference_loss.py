"""The whole loss once more, token by token in Python: what the vectorized code is held against.

Written from the formulas of the design alone; shares no code with the package.
"""

import torch

from configs.actor_schema import ActorConfig
from tests.actor.random_batches import Case


def reference_loss(case: Case, logprobs: torch.Tensor, config: ActorConfig) -> torch.Tensor:
    """Loss of a whole minibatch held in one micro-batch; autograd of it is the reference gradient."""
    t = case.tokens
    by_sequence: dict[int, list[int]] = {}
    for i in range(len(logprobs)):
        if t.mask[i]:
            by_sequence.setdefault(int(t.sequence[i]), []).append(i)
    token_losses: dict[int, list[torch.Tensor]] = {}
    for s, ids in by_sequence.items():
        token_losses[s] = [
            _objective(case, logprobs, ids, i, config)
            - config.entropy_coef * case.entropy[i]
            + (config.kl.coef * _kl(config.kl.type, logprobs[i], case.ref[i]) if config.kl.coef else 0.0)
            for i in ids
        ]
    return _aggregate(token_losses, config)


def _objective(case: Case, logprobs: torch.Tensor, ids: list[int], i: int, config: ActorConfig) -> torch.Tensor:
    t = case.tokens
    center = case.proximal if config.use_decoupled_loss else t.behavior_logprobs
    low, high = 1 - config.eps_clip, 1 + (config.eps_clip_higher or config.eps_clip)
    advantage = float(t.advantages[i])
    ratio = torch.exp(logprobs[i] - center[i])
    if config.objective == "ppo":
        loss = torch.max(-ratio * advantage, -torch.clamp(ratio, low, high) * advantage)
        if config.c_clip is not None and advantage < 0 and float(loss.detach()) > -config.c_clip * advantage:
            loss = torch.tensor(-config.c_clip * advantage, dtype=loss.dtype)
    elif config.objective == "gspo":
        s = torch.exp(sum(logprobs[j] - center[j] for j in ids) / len(ids))
        a = sum(float(t.advantages[j]) for j in ids) / len(ids)
        loss = torch.max(-s * a, -torch.clamp(s, low, high) * a)
    elif config.objective == "cispo":
        loss = -min(max(float(ratio.detach()), low), high) * advantage * logprobs[i]
    elif config.objective == "reinforce":
        loss = -(float(ratio.detach()) if config.use_decoupled_loss else 1.0) * advantage * logprobs[i]
    else:
        tau = config.sapo_temperature_pos if advantage > 0 else config.sapo_temperature_neg
        loss = -(4 / tau) / (1 + torch.exp(-tau * (ratio - 1))) * advantage
    return _weight(case, logprobs.detach(), ids, i, config) * loss


def _weight(case: Case, logprobs: torch.Tensor, ids: list[int], i: int, config: ActorConfig) -> float:
    if config.use_decoupled_loss:
        upper_policy = case.proximal
    elif config.objective == "reinforce":
        upper_policy = logprobs
    else:
        return 1.0
    deltas = {j: float(upper_policy[j] - case.tokens.behavior_logprobs[j]) for j in ids}
    c = config.behavior_correction
    level = "geometric" if config.objective == "gspo" else c.level
    exponent = {"token": deltas[i], "sequence": sum(deltas.values()), "geometric": sum(deltas.values()) / len(ids)}
    weight = float(torch.tensor(exponent[level], dtype=torch.float64).exp())
    lower, upper = c.lower if c.lower is not None else 0.0, c.upper if c.upper is not None else float("inf")
    if c.mode == "truncate":
        weight = min(max(weight, lower), upper)
    if c.mode == "mask" and not lower <= weight <= upper:
        weight = 0.0
    if c.token_veto is not None:
        smallest = min(float(torch.tensor(d, dtype=torch.float64).exp()) for d in deltas.values())
        if smallest < c.token_veto:
            weight = 0.0
    return weight


def _kl(kind: str, logprob: torch.Tensor, ref: torch.Tensor) -> torch.Tensor:
    d = ref - logprob
    if kind == "k1":
        return -d
    if kind == "k2":
        return d * d / 2
    if kind == "abs":
        return torch.abs(d)
    k3 = torch.exp(d) - 1 - d
    if kind == "k3":
        return k3
    return k3.detach() + d * d / 2 - (d * d / 2).detach()


def _aggregate(token_losses: dict[int, list[torch.Tensor]], config: ActorConfig) -> torch.Tensor:
    num_tokens = sum(len(v) for v in token_losses.values())
    if num_tokens == 0:
        return torch.zeros((), dtype=torch.float64)
    sums = [sum(v) for v in token_losses.values()]
    if config.loss_agg_mode == "token-mean":
        return sum(sums) / num_tokens
    if config.loss_agg_mode == "seq-mean-token-mean":
        return sum(sum(v) / len(v) for v in token_losses.values()) / len(token_losses)
    if config.loss_agg_mode == "seq-mean-token-sum":
        return sum(sums) / len(sums)
    return sum(sums) / len(sums) / config.loss_agg_const
