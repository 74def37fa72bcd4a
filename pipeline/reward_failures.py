"""How often rewards fail: above a limit the run stops, for a 0 that nobody meant teaches the wrong thing."""

from collections import deque
from collections.abc import Sequence

from configs.schema import RewardConfig
from pipeline.failures import RunFailed
from rollout.types import Trajectory

WINDOW = 200  # rewards


class RewardFailures:
    """Counts over the last `WINDOW` rewards; `recent` travels with a checkpoint."""

    def __init__(self, config: RewardConfig) -> None:
        self._limit = config.max_failure_fraction
        self.recent: deque[bool] = deque(maxlen=WINDOW)

    def count(self, trajectories: Sequence[Trajectory]) -> int:
        """Take the rewards of a group; returns how many of them failed.

        Raises:
            RunFailed: more failed than the limit allows among the last `WINDOW`, or already among fewer.
        """
        failed = [t for t in trajectories if t.reward_failed]
        self.recent.extend(t.reward_failed for t in trajectories)
        if failed and sum(self.recent) > self._limit * WINDOW:
            raise RunFailed(
                f"{sum(self.recent)} of the last {len(self.recent)} rewards failed (limit reward.max_failure_fraction="
                f"{self._limit:g} of {WINDOW}), the last with {failed[-1].reward_error}; "
                "mend reward.function or rollout.episode, see logs/rollout-*.log"
            )
        return len(failed)
