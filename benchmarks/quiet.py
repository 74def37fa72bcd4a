"""A benchmark's terminal shows its progress and its table; what libraries print shows only when the benchmark fails."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from typing import TextIO

_own: dict[str, TextIO] = {}


def own_stdout() -> TextIO:
    """Where the figures go."""
    return _own.get("stdout", sys.stdout)


def own_stderr() -> TextIO:
    """Where the progress goes."""
    return _own.get("stderr", sys.stderr)


def run_quietly(main: Callable[[], None]) -> None:
    """Run `main` with standard output and error in files, those of child processes and C++ code included.

    However `main` fails or exits early, everything it printed is shown then.
    """
    with ExitStack() as files:
        streams = {"stdout": sys.stdout, "stderr": sys.stderr}
        printed = {name: files.enter_context(tempfile.TemporaryFile()) for name in streams}
        for name, stream in streams.items():
            stream.flush()
            _own[name] = files.enter_context(os.fdopen(os.dup(stream.fileno()), "w", buffering=1))
            os.dup2(printed[name].fileno(), stream.fileno())
        try:
            main()
        except BaseException:
            for name, stream in streams.items():
                stream.flush()
                printed[name].seek(0)
                with os.fdopen(os.dup(_own[name].fileno()), "wb") as target:
                    shutil.copyfileobj(printed[name], target)
            raise
        finally:
            for name, stream in streams.items():
                stream.flush()
                os.dup2(_own.pop(name).fileno(), stream.fileno())
