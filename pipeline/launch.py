"""What every launcher does: check the machine and the model, then train."""

from typing import TYPE_CHECKING

from configs.schema import Config
from pipeline.hardware import check_hardware
from pipeline.model_folder import check_model_folder

if TYPE_CHECKING:
    from pipeline.summary import Summary


def launch(config: Config) -> "Summary":
    """Train, or go on with, the run that a checked config describes.

    Raises:
        ValueError: something that the user can mend, before any process starts where possible.
        KeyboardInterrupt: the run was interrupted; its message says how to go on.
    """
    check_hardware(config)
    check_model_folder(config)
    from pipeline.run import train  # imports the whole stack, seconds that a refused config need not wait

    return train(config)
