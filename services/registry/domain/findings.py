"""The findings of configuration checks."""

from collections.abc import Iterable
from dataclasses import dataclass

from libs.contracts.errors import ErrorDetail, ValidationFailed, dotted_path
from services.registry.domain.hints import Loc


def found(loc: Loc, kind: str, message: str, hint: str | None = None) -> ErrorDetail:
    return ErrorDetail(loc=list(loc), type=kind, message=message, hint=hint)


class InvalidConfiguration(ValidationFailed):
    def __init__(self, errors: list[ErrorDetail]) -> None:
        first = errors[0]
        path = dotted_path(first.loc) or "document"
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{path}: {first.message}{more}", details=errors)


def reject(errors: Iterable[ErrorDetail]) -> None:
    """Raises ``InvalidConfiguration`` if there are errors."""
    if every := list(errors):
        raise InvalidConfiguration(every)


@dataclass(frozen=True, slots=True)
class Finding:
    """An error or a warning about a configuration. Only errors make the configuration invalid."""

    detail: ErrorDetail
    is_error: bool


def error(loc: Loc, kind: str, message: str, hint: str | None = None) -> Finding:
    return Finding(found(loc, kind, message, hint), is_error=True)


def warning(loc: Loc, kind: str, message: str, hint: str | None = None) -> Finding:
    return Finding(found(loc, kind, message, hint), is_error=False)
