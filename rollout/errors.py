"""Errors of the sampler that the pipeline acts on. All of them survive pickling between processes."""


class EngineUnusable(RuntimeError):
    """The engine of a rollout worker has failed; the worker must be restarted from the published weights."""

    def __init__(self, worker: int, reason: str) -> None:
        super().__init__(worker, reason)
        self.worker = worker
        self.reason = reason

    def __str__(self) -> str:
        return f"rollout worker {self.worker} is unusable: {self.reason}"


class UpdateFailed(EngineUnusable):
    """A weight update did not end with verified weights; nothing was, or will be, served under its label.

    `cause` is what happened in words, `kind` the name of its exception's class.
    """

    def __init__(self, worker: int, version: int, phase: str, cause: str, kind: str) -> None:
        RuntimeError.__init__(self, worker, version, phase, cause, kind)
        self.kind = kind
        self.worker = worker
        self.version = version
        self.phase = phase
        self.cause = cause
        self.reason = f"update to version {version} failed in phase '{phase}': {cause}"


class WeightMismatch(ValueError):
    """Received or loaded weights differ from the published ones; lists the tensors."""


MAX_CHARACTERS = 160


def shortened(text: str) -> str:
    """A reason as part of a sentence: one line of at most `MAX_CHARACTERS`."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
