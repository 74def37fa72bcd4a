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
            TimeoutError: naming `what`, when the budget is spent.
        """
        try:
            # `asyncio.wait_for` would lose a cancellation that comes together with the result (Python 3.11).
            async with asyncio.timeout(max(0.0, self._end - time.monotonic())):
                return await awaitable
        except TimeoutError:
            raise TimeoutError(f"waited for {what}, which was not there within {self.limit_s:g} s") from None
