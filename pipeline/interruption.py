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
def noted_signals() -> Iterator[Callable[[], bool]]:
    """Whether a signal has come; it does nothing else, so that nothing is cut in the middle. Main thread only."""
    asked = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
