"""A say in whether ZeRO applies an update, which it decides inside its own step from the global gradient norm."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_CHECK = "is_invalid_grad_norm"


@contextmanager
def norm_veto(optimizer: Any, rejects: Callable[[float], bool]) -> Iterator[None]:
    """While inside, a gradient norm that `rejects` refuses is treated like one that is not finite: nothing is updated.

    Every stage of ZeRO asks the function `is_invalid_grad_norm` of its own module, with a norm that is the same on
    all ranks, and clears the gradients where the answer is yes; so this function does the rest.

    Raises:
        AttributeError: this DeepSpeed decides in another way.
    """
    module: Any = sys.modules[type(optimizer).__module__]
    invalid = getattr(module, _CHECK)

    def invalid_or_rejected(norm: Any) -> bool:
        return bool(invalid(norm)) or rejects(float(norm))

    setattr(module, _CHECK, invalid_or_rejected)
    try:
        yield
    finally:
        setattr(module, _CHECK, invalid)
