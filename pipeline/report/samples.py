"""Completions to read: a few of several steps, with what is known of each of their tokens."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipeline.report.token_text import token_texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

STEPS_A_RUN = 6
COMPLETIONS_A_STEP = 4
MAX_TOKENS_A_PAGE = 60_000
MAX_TOKENS_A_COMPLETION = 1_200
MAX_PROMPT_TOKENS = 600
DIGITS = 4


def chosen(trajectories: Sequence[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """Up to n that differ: the best and the worst reward, one that lived through an update, the longest, others."""
    if not trajectories:
        return []
    wanted = [
        max(trajectories, key=_reward),
        min(trajectories, key=_reward),
        max(trajectories, key=lambda t: len(set(t["versions"]))),
        max(trajectories, key=lambda t: len(t["response_token_ids"])),
        *trajectories,
    ]
    picked: dict[tuple[Any, ...], dict[str, Any]] = {}
    for t in wanted:
        if len(picked) == n:
            break
        picked.setdefault((t["group_id"], t.get("sample")), t)
    return list(picked.values())


def _reward(trajectory: dict[str, Any]) -> float:
    return _finite(trajectory["reward"]) or 0.0


def tokens_shown(num_completions: int) -> int:
    """Tokens of each completion that a page has room for."""
    return min(MAX_TOKENS_A_COMPLETION, MAX_TOKENS_A_PAGE // max(1, num_completions))


def sample(trajectory: dict[str, Any], tokenizer: "PreTrainedTokenizerBase | None", max_tokens: int) -> dict[str, Any]:
    """One completion for the page. Lists are per response token, cut to `max_tokens` of them.

    `lags` are those at consumption. `delta` is proximal − behavior logprob, null outside the loss; it is there where
    the trainer computed proximal logprobs. The difference travels, not its two ends: rounded, they would make one up.
    """
    ids = trajectory["response_token_ids"]
    kept = min(len(ids), max_tokens)
    consumer = int(trajectory["step"]) - 1
    prompt = trajectory["prompt_token_ids"]
    out = {
        "step": trajectory["step"],
        "group": trajectory["group_id"],
        "prompt_id": trajectory.get("prompt_id", ""),
        "worker": trajectory.get("worker"),
        "reward": _finite(trajectory["reward"]),
        "reward_failed": bool(trajectory.get("reward_failed")),
        "finish": trajectory.get("finish_reason", ""),
        "num_tokens": len(ids),
        "prompt": "".join(token_texts(tokenizer, prompt[-MAX_PROMPT_TOKENS:])),
        "prompt_cut": len(prompt) > MAX_PROMPT_TOKENS,
        "texts": token_texts(tokenizer, ids[:kept]),
        "ids": ids[:kept],
        "behavior": _rounded(trajectory["behavior_logprobs"][:kept]),
        "versions": trajectory["versions"][:kept],
        "lags": [consumer - v for v in trajectory["versions"][:kept]],
        "mask": trajectory.get("loss_mask", [1] * len(ids))[:kept],
    }
    if proximal := trajectory.get("proximal_logprobs"):
        pairs = zip(proximal[:kept], trajectory["behavior_logprobs"], out["mask"], strict=False)
        out["delta"] = _rounded([p - b if m else None for p, b, m in pairs])
    return out


def _rounded(values: Sequence[float | None]) -> list[float | None]:
    """To a few significant digits: a page needs no more, and they make half of its size."""
    return [None if v is None or _finite(v) is None else float(f"{v:.{DIGITS}g}") for v in values]


def _finite(value: float) -> float | None:
    """JSON knows no NaN and no infinities."""
    return value if math.isfinite(value) else None
