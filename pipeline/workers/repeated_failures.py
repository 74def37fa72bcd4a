"""Which failed weight updates every other engine would repeat: to replace the worker would find nothing."""

from exchange.types import WeightUpdate
from pipeline.errors import RunFailed
from pipeline.machine.remote import cause_of
from rollout.errors import UpdateFailed

ANOTHER_TIME = ("TimeoutError", "its engine process")
"""How causes begin that another engine may well not meet: it was slow, or it died."""


class UpdateFailures:
    """The failed updates of a fleet's workers.

    An error while weights are loaded may come from a damaged copy, so the first one is answered with a new engine and
    weights that are published once more; the same error again comes from the weights themselves.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str, str], WeightUpdate] = {}

    def require_another_chance(self, error: BaseException, update: WeightUpdate) -> None:
        """Return where another engine may succeed with these weights.

        Args:
            error: what the update ended with.
            update: the publication that was loaded.

        Raises:
            RunFailed: engine and trainer compute different things, or another publication of the same version failed
                in the same phase with the same kind of error.
        """
        failure = cause_of(error)
        if not isinstance(failure, UpdateFailed) or failure.cause.startswith(ANOTHER_TIME):
            return
        kind = (failure.version, failure.phase, failure.cause.partition(":")[0])
        if failure.certain or self._seen.setdefault(kind, update) is not update:
            again = "" if failure.certain else " again, in a new engine"
            raise RunFailed(
                f"rollout worker {failure.worker}: {failure.reason}{again}; every other engine would fail with these "
                "weights too, `proxrl doctor` finds the cause"
            ) from error
