"""Why a run ended that nobody interrupted."""


class RunFailed(RuntimeError):
    """The run cannot go on; its message is one or two sentences for the user: what happened, how to go on."""
