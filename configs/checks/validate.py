"""Checks that span fields; they run before any process starts.

Each check is one small function with its sentence, listed once below in the order in which they run.
"""

from collections.abc import Callable

from configs.checks.actor import ACTOR_CHECKS
from configs.checks.objective import ADVANTAGE_CHECKS, OBJECTIVE_CHECKS
from configs.checks.ranges import check_ranges
from configs.checks.rollout import ROLLOUT_CHECKS
from configs.checks.run import RUN_CHECKS
from configs.schema import Config

Check = Callable[[Config], None]

CHECKS: tuple[Check, ...] = (
    check_ranges,
    *RUN_CHECKS,
    *ROLLOUT_CHECKS,
    *OBJECTIVE_CHECKS,
    *ADVANTAGE_CHECKS,
    *ACTOR_CHECKS,
)


def validate(config: Config) -> None:
    """Refuse a config that cannot work.

    Raises:
        ConfigError: the first check that fails, naming key, value and remedy.
    """
    for check in CHECKS:
        check(config)
