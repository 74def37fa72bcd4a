"""GSM8K's training rows, or rows of its shape where the data set is not at hand."""

import json
import os
import random
from pathlib import Path

FOLDER_VARIABLE = "GSM8K"  # folder with train.jsonl
NUM_ROWS = 64


def training_file(folder: Path) -> Path:
    """The file that `GSM8K` names, else one that is written into `folder`."""
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        return Path(given).resolve() / "train.jsonl"
    path = folder / "train.jsonl"
    rng = random.Random(0)
    path.write_text("".join(json.dumps(_row(rng)) + "\n" for _ in range(NUM_ROWS)))
    return path


def _row(rng: random.Random) -> dict[str, str]:
    each, boxes = rng.randint(2, 12), rng.randint(2, 9)
    total = each * boxes
    return {
        "question": f"A shop sells {boxes} boxes with {each} eggs in each box. How many eggs does it sell?",
        "answer": f"There are {boxes}*{each} = <<{boxes}*{each}={total}>>{total} eggs.\n#### {total}",
    }
