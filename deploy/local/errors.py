"""Errors of the embedded stack. Each has a remedy."""


class StackError(Exception):
    """An error that the terminal shows as a problem and its remedy."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem if not remedy else f"{problem}\n{remedy}")
        self.problem = problem
        self.remedy = remedy


class ProcessFailed(StackError):
    """A process exited while it was being prepared or started."""


class PortTaken(ProcessFailed):
    """Another program has bound the chosen port."""
