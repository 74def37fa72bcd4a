"""Small groups for the tests of the loop."""

from exchange.types import Group, Prompt, Trajectory


def trajectory(versions: tuple[int, ...], reward: float = 1.0) -> Trajectory:
    n = len(versions)
    return Trajectory(
        prompt_token_ids=(1, 2),
        response_token_ids=tuple(range(3, 3 + n)),
        behavior_logprobs=(-0.5,) * n,
        versions=versions,
        loss_mask=(1,) * n,
        reward=reward,
        finish_reason="stop",
    )


def group(group_id: str, *versions: tuple[int, ...], rewards: tuple[float, ...] | None = None) -> Group:
    rewards = rewards or tuple(float(i) for i in range(len(versions)))
    samples = tuple(trajectory(v, r) for v, r in zip(versions, rewards, strict=True))
    return Group(group_id, f"p-{group_id}", 0, 0, samples)


def prompts(n: int) -> list[Prompt]:
    return [Prompt(str(i), (1, 2, 3 + i), answer=str(i)) for i in range(n)]
