"""Checks that span fields; they run before any process starts.

Each check is one small function with its sentence, listed once below in the order in which they run.
"""

from collections.abc import Callable

from configs.ranges import check_ranges
from configs.schema import Config
from configs.validate_actor import ACTOR_CHECKS
from configs.validate_advantage import ADVANTAGE_CHECKS
from configs.validate_objective import OBJECTIVE_CHECKS
from configs.validate_rollout import ROLLOUT_CHECKS
from configs.validate_run import RUN_CHECKS

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
