"""Where metrics go beside metrics.jsonl: TensorBoard, Weights & Biases and trackio, behind one small interface."""

import io
import uuid
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import asdict
from types import TracebackType
from typing import Any, Protocol

from configs.schema import Config
from pipeline.records.run_folder import RunFolder


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
    """One Weights & Biases run for all the processes of a resumed run (its id is in RUN/wandb_id)."""

    def __init__(self, config: Config, folder: RunFolder) -> None:
        try:
            import wandb
        except ImportError:
            raise _missing("wandb", config.trackers.wandb_project) from None
        (folder.root / "wandb").mkdir(mode=0o700, exist_ok=True)  # its files hold settings of the machine and the run
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


class TrackioTracker:
    """One trackio run for all the processes of a resumed run (its name is in RUN/trackio_run).

    trackio keeps it on this machine, in a folder of its own, unless its environment variables name a server. It knows
    a run by name alone, so the name gets a suffix that no other run has.
    """

    def __init__(self, config: Config, folder: RunFolder) -> None:
        try:
            import trackio
        except ImportError:
            raise _missing("trackio", config.trackers.trackio_project) from None
        name_file = folder.root / "trackio_run"
        name = name_file.read_text() if name_file.exists() else f"{config.run.name}-{uuid.uuid4().hex[:8]}"
        name_file.write_text(name)
        self._finish = trackio.finish
        with redirect_stdout(io.StringIO()):  # it prints how to open a dashboard, between the lines of the run
            self._run = trackio.init(
                project=config.trackers.trackio_project,
                name=name,
                config=asdict(config),
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        with redirect_stdout(io.StringIO()):
            self._finish()  # not the run's own: trackio would finish it once more when the process ends


def _missing(package: str, project: str | None) -> ValueError:
    return ValueError(
        f"trackers.{package}_project={project!r} needs the {package} package; "
        f"pip install {package}, or leave the key out"
    )


class Trackers:
    """All trackers that the config asks for."""

    def __init__(self, config: Config, folder: RunFolder, first_step: int) -> None:
        self._trackers: list[Tracker] = []
        if config.trackers.tensorboard:
            self._trackers.append(TensorBoardTracker(folder, first_step))
        if config.trackers.wandb_project:
            self._trackers.append(WandbTracker(config, folder))
        if config.trackers.trackio_project:
            self._trackers.append(TrackioTracker(config, folder))

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
