"""Finished groups waiting for the trainer; their age is checked again when they are consumed.

The staleness bound: how many groups may be started so that none is consumed too old.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from exchange.types import Group


@dataclass
class Admission:
    """Counts groups. Owner of the invariant `accepted + running <= (η + version + 1) · B`.

    A group admitted under it is at most η steps ahead of the trainer, so its oldest token lags
    by at most η when the batch that holds it is consumed in order. Consumption checks the age
    again (`pipeline.feed.staleness`), because a group can wait longer than its turn.
    """

    batch_size: int  # B, groups per step
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


class GroupBuffer:
    """First in, first out by the order in which groups were started.

    Owner of the invariant that no consumed group holds a token older than η versions.
    """

    def __init__(self, max_head_offpolicyness: int, groups: Iterable[Group] = ()) -> None:
        self._eta = max_head_offpolicyness
        self._groups = {g.group_id: g for g in groups}

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def groups(self) -> list[Group]:
        """The waiting groups in the order in which they were started."""
        return [self._groups[k] for k in sorted(self._groups)]

    def put(self, group: Group) -> None:
        """Add a finished group, which may not wait here already."""
        assert group.group_id not in self._groups, f"group {group.group_id} entered the buffer twice"
        self._groups[group.group_id] = group

    def drop_stale(self, version: int) -> list[Group]:
        """Remove and return the groups whose oldest token lags `version` by more than η."""
        stale = [g for g in self._groups.values() if version - g.oldest_version > self._eta]
        for g in stale:
            del self._groups[g.group_id]
        return stale

    def take(self, n: int) -> list[Group]:
        """Remove and return the n groups that were started first; the caller has checked `len`."""
        assert len(self) >= n
        chosen = self.groups[:n]
        for g in chosen:
            del self._groups[g.group_id]
        return chosen
