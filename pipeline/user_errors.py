"""What a user can mend is shown as one sentence, without a traceback."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from configs.errors import ConfigError
from pipeline.failures import RunFailed
from pipeline.our_code import is_ours

EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130


@contextmanager
def one_sentence() -> Iterator[None]:
    """End the process with code 2 and one sentence on stderr for a ConfigError or a ValueError that we raised.

    A ValueError that comes from a library is a defect of ours and keeps its traceback. An interruption ends with
    code 130 and its message.
    """
    try:
        yield
    except KeyboardInterrupt as interruption:
        print(f"\n{interruption}" if str(interruption) else "\ninterrupted", file=sys.stderr)
        raise SystemExit(EXIT_INTERRUPTED) from None
    except RunFailed as failure:
        print(f"error: {failure}", file=sys.stderr)
        raise SystemExit(EXIT_FAILED) from None
    except ValueError as error:
        if not isinstance(error, ConfigError) and not _raised_by_us(error):
            raise
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(EXIT_REFUSED) from None


def _raised_by_us(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and is_ours(frames[-1].filename)
