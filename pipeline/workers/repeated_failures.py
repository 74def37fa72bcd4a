"""Which failed weight updates every other engine would repeat: to replace the worker would find nothing."""

from exchange.types import WeightUpdate
from pipeline.errors import RunFailed
from pipeline.machine.remote import cause_of
from rollout.errors import EngineUnusable, UpdateFailed
from rollout.weights.probe import ProbeDisagreement

CERTAIN = ProbeDisagreement.__name__
"""The weights are proved to be the same, so every other engine would disagree as well."""
OF_THIS_ENGINE = (TimeoutError.__name__, EngineUnusable.__name__)
"""It was slow, or its process died: another engine may well do better."""


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
        if not isinstance(failure, UpdateFailed) or failure.kind in OF_THIS_ENGINE:
            return
        certain = failure.kind == CERTAIN
        if certain or self._seen.setdefault((failure.version, failure.phase, failure.kind), update) is not update:
            again = "" if certain else " again, in a new engine"
            raise RunFailed(
                f"rollout worker {failure.worker}: {failure.reason}{again}; every other engine would fail with these "
                "weights too, `proxrl doctor` finds the cause"
            ) from error
