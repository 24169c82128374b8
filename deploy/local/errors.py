"""What can go wrong with the embedded stack, each with what the reader can do about it."""


class StackError(Exception):
    """A failure shown to the person at the terminal: what happened, then the remedy."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem if not remedy else f"{problem}\n{remedy}")
        self.problem = problem
        self.remedy = remedy


class ProcessFailed(StackError):
    """A part exited while it was being prepared or started."""
