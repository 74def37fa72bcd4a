"""Ctrl-C and SIGTERM end a run in order: every process, the shared memory, and a sentence how to go on."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def end_on_signals(note: Callable[[str], None]) -> None:
    """Cancel the current task at the first signal; later ones change nothing, for ending takes a few seconds."""
    main = asyncio.current_task()
    assert main is not None
    loop = asyncio.get_running_loop()
    asked = False

    def end() -> None:
        nonlocal asked
        if not asked:
            asked = True
            note("ending: every process is stopped within a few seconds")
            main.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, end)


@contextmanager
def termination_interrupts() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt as Ctrl-C does, for commands that have processes to end. Main thread only."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
