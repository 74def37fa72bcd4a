"""What became of every prompt: one event a line in RUN/ledger.jsonl."""

from typing import Literal

from pipeline.records.json_lines import JsonLines

Event = Literal["issued", "finished", "consumed", "dropped", "requeued"]


class Ledger:
    """Writes events of groups; `reason` says why one was dropped or asked again."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines

    def record_dataset(self, num_prompts: int) -> None:
        """How many prompts an epoch has; written once, when the run begins."""
        self._lines.write({"event": "dataset", "num_prompts": num_prompts})

    @property
    def num_bytes(self) -> int:
        """Size of ledger.jsonl."""
        return self._lines.num_bytes

    def record(
        self, event: Event, group_id: str, prompt_id: str, epoch: int, version: int, reason: str | None = None
    ) -> None:
        """Append what became of a group; `version` is the admission's at that time."""
        row = {"event": event, "group_id": group_id, "prompt_id": prompt_id, "epoch": epoch, "version": version}
        self._lines.write(row if reason is None else row | {"reason": reason})
