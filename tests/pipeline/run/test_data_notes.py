"""What a run says of its data sets before it trains."""

from exchange.types import Prompt
from pipeline.run.run import data_notes
from rollout.data.dataset import NO_ROOM, TOO_LONG, PromptSet


def prompt_set(*prompts: tuple[int, ...], **dropped: int) -> PromptSet:
    return PromptSet([Prompt(str(i), ids, "answer") for i, ids in enumerate(prompts)], dropped)


def test_nothing_to_say() -> None:
    assert data_notes(prompt_set((1, 2), (3,)), prompt_set((1,), (2,))) == []
    assert data_notes(prompt_set((1, 2)), prompt_set()) == []


def test_left_out_prompts_of_either_set() -> None:
    notes = data_notes(prompt_set((1,), **{TOO_LONG: 2, NO_ROOM: 1}), prompt_set((2,), (3,), **{TOO_LONG: 5}))
    assert notes == [
        "3 of 4 prompts are too long and left out",
        "5 of 7 held-out prompts are too long and left out",
    ]


def test_prompts_in_both_sets_are_said_loudly() -> None:
    (note,) = data_notes(prompt_set((1, 2), (3,), (4,)), prompt_set((3,), (1, 2), (1,)))
    assert note.startswith("WARNING: 2 of 3 held-out prompts are also training prompts")
    assert "eval.path and eval.split" in note
