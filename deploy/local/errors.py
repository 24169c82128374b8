"""Errors of the embedded stack."""


class StackError(Exception):
    """An error that the terminal shows as a problem and its remedy."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem if not remedy else f"{problem}\n{remedy}")
        self.problem = problem
        self.remedy = remedy


class ProcessFailed(StackError):
    """A process couldn't be prepared or started."""


class PortTaken(ProcessFailed):
    """Another program has bound the chosen port."""
