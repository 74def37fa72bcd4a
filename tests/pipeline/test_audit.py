import pytest

from pipeline.audit import audit


def event(name, group, prompt, epoch=0):
    return {"event": name, "group_id": group, "prompt_id": prompt, "epoch": epoch, "version": 0}


DATASET = {"event": "dataset", "num_prompts": 2}
CLEAN = [
    DATASET,
    event("issued", "g0", "a"),
    event("issued", "g1", "b"),
    event("finished", "g1", "b"),
    event("requeued", "g0", "a"),
    event("issued", "g2", "a"),
    event("consumed", "g1", "b"),
    event("finished", "g2", "a"),
    event("consumed", "g2", "a"),
    event("issued", "g3", "b", epoch=1),
]


def test_a_clean_run():
    result = audit(CLEAN)
    assert result.problems == []
    assert (result.num_issued, result.num_consumed, result.num_requeued, result.num_open) == (4, 2, 1, 1)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (
            [*CLEAN[:9], event("issued", "g4", "a"), event("consumed", "g4", "a")],
            "prompt a of epoch 0 was trained on twice",
        ),
        ([*CLEAN[:3], event("issued", "g4", "a")], "asked by g4 while g0 was still open"),
        ([*CLEAN[:5], event("issued", "g4", "b", 1)], "prompt a of epoch 0 was put back by g0 and passed over"),
        (
            [DATASET, event("issued", "g0", "a"), event("issued", "g1", "a", 1)],
            "1 of 2 prompts were never asked in epoch 0",
        ),
        ([DATASET, event("consumed", "g0", "a")], "group g0 was consumed without being open"),
    ],
)
def test_each_loss_is_named(rows, problem):
    assert any(problem in p for p in audit(rows).problems)
