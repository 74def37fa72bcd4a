"""Records that are no longer what they were at a checkpoint."""

import hashlib

import pytest

from pipeline.records.restored import records_damage
from pipeline.records.run_folder import RunFolder
from pipeline.records.run_state import RunState

LEDGER = b'{"event": "dataset", "num_prompts": 4}\n{"event": "issued", "group_id": "g0"}\n'


@pytest.mark.parametrize(
    ("ledger", "damage"),
    [
        (LEDGER + b'{"event": "consumed"}\n', None),  # what came after it
        (LEDGER.replace(b"g0", b"g1"), "ledger.jsonl was changed since then"),
        (LEDGER[:-5], f"ledger.jsonl has lost 5 of the {len(LEDGER)} bytes that it had then"),
        (LEDGER.replace(b'"issued"', b"'issued'"), "ledger.jsonl is damaged: line 2 is not one JSON object"),
    ],
)
def test_what_became_of_the_ledger_is_told(tmp_path, ledger, damage):
    folder = RunFolder(tmp_path)
    folder.ledger.write_bytes(ledger)
    folder.metrics.touch()
    digest = hashlib.sha256(LEDGER).hexdigest()
    state = RunState(1, {}, 1, [], [], len(LEDGER), 0, {}, 0.0, ledger_sha256=digest)
    assert records_damage(folder, state) == damage
