"""Every number of the schema has a range, and no range names a key that is gone."""

from configs.checks.ranges import RANGES
from configs.keys import leaves, sections


def test_every_number_has_a_range() -> None:
    numbers = {key for key, leaf in leaves().items() if leaf.type in (int, float) and not leaf.choices}
    assert numbers == set(RANGES)


def test_every_default_lies_in_its_range() -> None:
    for key, allowed in RANGES.items():
        default = leaves()[key].default
        assert leaves()[key].mandatory or default is None or allowed.holds(default), key


def test_every_field_has_a_doc_of_one_line() -> None:
    for key, leaf in leaves().items():
        assert leaf.doc and "\n" not in leaf.doc and leaf.doc[-1] in ".?", key
    assert "actor.kl" in sections()
