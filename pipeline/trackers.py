"""Where metrics go beside metrics.jsonl: TensorBoard and Weights & Biases, behind one small interface."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol

from configs.schema import Config
from pipeline.run_folder import RunFolder


class Tracker(Protocol):
    """One experiment tracker."""

    def log(self, step: int, values: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoardTracker:
    """Event files under RUN/tensorboard; `purge_step` hides what a resumed run writes again."""

    def __init__(self, folder: RunFolder, first_step: int) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        self._writer = SummaryWriter(str(folder.root / "tensorboard"), purge_step=first_step + 1)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WandbTracker:
    """One Weights & Biases run for all the processes of a resumed run (its id lies in RUN/wandb_id)."""

    def __init__(self, config: Config, folder: RunFolder) -> None:
        try:
            import wandb
        except ImportError:
            raise ValueError(
                f"trackers.wandb_project={config.trackers.wandb_project!r} needs the wandb package; "
                "pip install wandb, or leave the key out"
            ) from None
        id_file = folder.root / "wandb_id"
        run_id = id_file.read_text() if id_file.exists() else wandb.util.generate_id()
        id_file.write_text(run_id)
        self._run = wandb.init(
            project=config.trackers.wandb_project,
            name=config.run.name,
            id=run_id,
            resume="allow",
            dir=str(folder.root),
            mode="offline" if config.trackers.wandb_offline else "online",
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class Trackers:
    """All trackers that the config asks for."""

    def __init__(self, config: Config, folder: RunFolder, first_step: int) -> None:
        self._trackers: list[Tracker] = []
        if config.trackers.tensorboard:
            self._trackers.append(TensorBoardTracker(folder, first_step))
        if config.trackers.wandb_project:
            self._trackers.append(WandbTracker(config, folder))

    def log(self, row: Mapping[str, Any]) -> None:
        """Log one row of metrics.jsonl."""
        values = {k: float(v) for k, v in row.items() if isinstance(v, int | float) and k != "step"}
        for tracker in self._trackers:
            tracker.log(int(row["step"]), values)

    def __enter__(self) -> "Trackers":
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        for tracker in self._trackers:
            tracker.close()
