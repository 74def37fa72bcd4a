"""What every launcher does: check the machine and the model, then train."""

import sys
from typing import TYPE_CHECKING

from configs.schema import Config
from pipeline.errors import TrainerLost
from pipeline.preflight.check import check

if TYPE_CHECKING:
    from pipeline.records.summary import Summary


def launch(config: Config, max_restarts: int = 0) -> "Summary":
    """Train, or resume, the run that a checked config describes.

    A run that loses a trainer rank starts again from its last checkpoint, at most `max_restarts` times.

    Raises:
        ValueError: something that the user can fix, before any process starts where possible.
        KeyboardInterrupt: the run was interrupted; its message says how to resume.
        RunFailed: the run cannot continue; its message says why and how to resume.
    """
    check(config)
    from pipeline.run.loop import train  # imports the whole stack, seconds that a refused config need not wait

    for restart in range(1, max_restarts + 1):
        try:
            return train(config)
        except TrainerLost as loss:
            print(f"{loss}\nrestart {restart} of {max_restarts}", file=sys.stderr, flush=True)
    return train(config)
