"""Publishes the trainer's weights and brings every rollout worker to them while it generates."""

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from exchange.types import UpdateReport, WeightUpdate
from pipeline.workers.fleet import Fleet
from pipeline.workers.trainer_group import TrainerGroup


class WeightSync:
    """One ordering invariant: publish v whole → update workers to v → only then delete what was before.

    ```
    sync = WeightSync(trainer, fleet, probe, folder)
    await sync.publish(v)                  # trainer's turn: gather, write, score the probe
    sync.start_update(on_done, on_failed)  # workers' turn, beside the next step
    await sync.finish_update()             # reports of the workers that verified v
    ```
    """

    def __init__(
        self, trainer: TrainerGroup, fleet: Fleet, probe_token_ids: tuple[int, ...], folder: Path | None
    ) -> None:
        """`folder`: where weights travel as files, in shared memory; None: the fleet broadcasts them."""
        self._trainer, self._fleet, self._probe, self._folder = trainer, fleet, probe_token_ids, folder
        self._current: Path | None = None
        self._outdated: list[Path] = []
        self._num_renewed = 0
        if folder is not None:
            fleet.renew = self.renew
        self._update: WeightUpdate | None = None
        self._task: asyncio.Task[list[UpdateReport]] | None = None

    async def publish(self, version: int) -> float:
        """Write the weights of `version`; returns the seconds it took."""
        assert self._task is None, "the update before has not finished"
        started = time.monotonic()
        if self._folder is None:
            self._update = await self._trainer.publish(version, None, self._probe)
            return time.monotonic() - started
        directory = self._folder / f"v{version}"
        directory.mkdir()
        self._update = await self._trainer.publish(version, str(directory), self._probe)
        self._replace_current(directory)
        return time.monotonic() - started

    async def renew(self, update: WeightUpdate) -> WeightUpdate:
        """Publish once more what a worker could not load, for its files may be damaged.

        Unchanged when the trainer has begun another step: the next version is on its way then.
        """
        assert self._folder is not None
        async with self._trainer.turn:
            if not self._trainer.holds(update.version):
                return update
            self._num_renewed += 1
            directory = self._folder / f"v{update.version}-again-{self._num_renewed}"
            directory.mkdir()
            self._update = await self._trainer.publish(update.version, str(directory), self._probe)
            self._replace_current(directory)
            return self._update

    def _replace_current(self, directory: Path) -> None:
        if self._current is not None:
            self._outdated.append(self._current)  # a worker may still be reading it
        self._current = directory

    def start_update(self, on_done: Callable[[], None], on_failed: Callable[[BaseException], None]) -> None:
        """Let the workers load what was published last; they go on generating around the pause.

        `on_done` is called once every serving worker holds the new version, `on_failed` where that cannot be: without
        it a run that waits for samples of the new version would wait for ever.
        """
        assert self._update is not None and self._task is None

        def ended(task: asyncio.Task[list[UpdateReport]]) -> None:
            if task.cancelled():
                return
            error = task.exception()
            if error is None:
                on_done()
            else:
                on_failed(error)

        self._task = asyncio.ensure_future(self._fleet.update(self._update))
        self._task.add_done_callback(ended)

    async def settle_update(self) -> None:
        """Wait until the workers hold the published version; the reports stay for `finish_update`."""
        if self._task is not None:
            await asyncio.wait({self._task})
            self._task.result()

    async def finish_update(self) -> list[UpdateReport]:
        """Wait for the workers' reports; workers that failed are being replaced and are not among them."""
        if self._task is None:
            return []
        reports = await self._task
        self._task = None
        for directory in self._outdated:
            shutil.rmtree(directory, ignore_errors=True)
        self._outdated = []
        return reports

    def close(self) -> None:
        """Stop updating; what was published goes with its folder."""
        if self._task is not None:
            self._task.cancel()


def sync_metrics(reports: list[UpdateReport], publish_s: float) -> dict[str, float]:
    """`weight_sync/…`: the slowest worker's times, and the probe's worst difference."""
    metrics = {"weight_sync/publish_s": publish_s, "weight_sync/num_workers": float(len(reports))}
    if reports:
        for name in ("pause_s", "load_s", "verify_s", "resume_s", "probe_mean_abs_diff", "probe_max_abs_diff"):
            metrics[f"weight_sync/{name}"] = max(getattr(r, name) for r in reports)
        metrics["weight_sync/num_tensors_checked"] = float(min(r.num_tensors_checked for r in reports))
    return metrics
