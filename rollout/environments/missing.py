"""The error for something that the system lacks: one sentence with what is missing and how to get it."""


class MissingPiece(ValueError):
    """An engine's environment cannot be made or used until the user installs something."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}.")
