"""Waits that end: every wait has a limit and, when it is passed, says what was waited for."""

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Deadline:
    """A budget of seconds shared by the waits of one operation."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._end = time.monotonic() + limit_s

    async def wait(self, awaitable: Awaitable[T], what: str) -> T:
        """The awaitable's result.

        Raises:
            TimeoutError: naming `what`, when the budget is spent; one that the awaitable raised itself stays as it is.
        """
        # `asyncio.wait_for` would lose a cancellation that comes together with the result (Python 3.11).
        limit = asyncio.timeout(max(0.0, self._end - time.monotonic()))
        try:
            async with limit:
                return await awaitable
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"waited {self.limit_s:g} s for {what}") from None
