"""Finished groups waiting for the trainer; their age is checked again when they are consumed."""

from collections.abc import Iterable

from rollout.types import Group


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
