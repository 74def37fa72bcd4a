"""The staleness bound: how many groups may be started so that none is consumed too old."""

from dataclasses import dataclass


@dataclass
class Admission:
    """Counts groups. Owner of the invariant `accepted + running <= (η + version + 1) · B`.

    A group admitted under it lies at most η steps ahead of the trainer, so its oldest token lags
    by at most η when the batch that holds it is consumed in order. Consumption checks the age
    again (`pipeline.buffer`), because a group can wait longer than its turn.
    """

    batch_size: int  # B, groups a step
    max_head_offpolicyness: int  # η, steps
    max_concurrent: int  # groups in flight
    total_steps: int
    version: int = 0
    accepted: int = 0  # groups that entered the buffer and were not dropped from it
    running: int = 0  # groups in flight

    @property
    def left(self) -> int:
        """Groups that may still be started until the run's last step."""
        return self.total_steps * self.batch_size - (self.accepted + self.running)

    @property
    def free(self) -> int:
        """Groups that may be started now (never negative)."""
        steps = min(self.max_head_offpolicyness + self.version + 1, self.total_steps)
        by_staleness = steps * self.batch_size - (self.accepted + self.running)
        return max(0, min(self.max_concurrent - self.running, by_staleness))

    def start(self) -> None:
        """A group was sent to a worker."""
        self.running += 1

    def accept(self) -> None:
        """A running group entered the buffer."""
        self.running -= 1
        self.accepted += 1

    def discard(self) -> None:
        """A running group was lost or thrown away before it entered the buffer."""
        self.running -= 1

    def drop(self) -> None:
        """A group left the buffer unused; its place is free again."""
        self.accepted -= 1
