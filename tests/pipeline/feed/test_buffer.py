from pipeline.feed.staleness import GroupBuffer
from tests.pipeline.groups import group


def test_takes_the_groups_that_were_started_first():
    buffer = GroupBuffer(1)
    for name in ("g2", "g0", "g1"):
        buffer.put(group(name, (0,), (0,)))
    assert [g.group_id for g in buffer.take(2)] == ["g0", "g1"]
    assert [g.group_id for g in buffer.groups] == ["g2"]


def test_age_is_that_of_the_oldest_token():
    buffer = GroupBuffer(2)
    buffer.put(group("old", (3, 4), (2, 3, 4)))  # oldest token: version 2
    buffer.put(group("young", (3, 4), (3, 3)))
    assert buffer.drop_stale(4) == []  # lag 2 is allowed at η = 2
    assert [g.group_id for g in buffer.drop_stale(5)] == ["old"]
    assert [g.group_id for g in buffer.groups] == ["young"]
