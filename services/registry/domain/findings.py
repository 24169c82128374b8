"""The findings of a validation."""

from dataclasses import dataclass, field

from libs.contracts.errors import ErrorDetail
from services.registry.domain.hints import Loc


@dataclass(slots=True)
class Findings:
    """Errors make a configuration invalid, warnings do not."""

    errors: list[ErrorDetail] = field(default_factory=list)
    warnings: list[ErrorDetail] = field(default_factory=list)

    def error(self, loc: Loc, kind: str, message: str, hint: str | None) -> None:
        self.errors.append(ErrorDetail(loc=list(loc), type=kind, message=message, hint=hint))

    def warn(self, loc: Loc, kind: str, message: str, hint: str | None) -> None:
        self.warnings.append(ErrorDetail(loc=list(loc), type=kind, message=message, hint=hint))
