"""Steps in a row that changed nothing, because no gradient of theirs was usable."""

from dataclasses import dataclass

SKIPPED = "ppo_actor/update/num_skipped_updates"


@dataclass
class SkippedSteps:
    """Counts steps in a row in which every update was skipped."""

    limit: int  # 0: no limit
    num_minibatches: int
    in_a_row: int = 0

    def reached(self, num_skipped_updates: float) -> bool:
        """Take a step's number of skipped updates; True when the limit is reached."""
        # The number is a mean of shares over ranks and micro-batches, whole up to rounding.
        whole_step = round(num_skipped_updates) >= self.num_minibatches
        self.in_a_row = self.in_a_row + 1 if whole_step else 0
        return 0 < self.limit <= self.in_a_row
