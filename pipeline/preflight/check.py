"""Everything about machine and model that can be known before a process starts."""

from configs.schema import Config
from pipeline.machine.hardware import check_hardware
from pipeline.preflight.model_folder import check_model_folder


def check(config: Config, trains: bool = True, saves: bool = True) -> None:
    """Refuse a job that would end, or go wrong, for a reason that the machine or the model's files tell now.

    Args:
        config: checked in itself.
        trains: false where only engines run, which need neither GPUs for a trainer, nor adapters, nor new weights.
        saves: false where no checkpoint is written.

    Raises:
        ConfigError: one sentence with the key, its value and a remedy.
    """
    check_hardware(config, trains)
    check_model_folder(config)
    # Imports transformers: seconds that a refusal above need not wait for.
    from pipeline.preflight.architecture import check_architecture
    from pipeline.preflight.disk_room import check_room
    from pipeline.preflight.model_weights import check_weights

    if (model := check_architecture(config)) is None:
        return
    if (built := check_weights(config, model, trains)) is not None and trains:
        check_room(config, built, saves)
