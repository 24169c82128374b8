"""Sets how long a company keeps its sessions."""

from dataclasses import dataclass

from libs.contracts.api.retention import Retention
from libs.contracts.commands import runtime as commands
from libs.contracts.events.runtime import RetentionUpdated
from libs.contracts.messages import CommandContext
from libs.eventing import Transaction
from services.runtime.domain.retention import OpenRetention, RetentionReads


def retention_of(days: int | None, default: int | None) -> Retention:
    return Retention(session_retention_days=default if days is None else days, default_session_retention_days=default)


@dataclass(frozen=True, slots=True)
class SetRetention:
    """``default``: the days of companies that have not said, None for ever."""

    open_retention: OpenRetention
    default: int | None

    async def __call__(self, transaction: Transaction, command: commands.SetRetention, context: CommandContext) -> None:
        company_id, days = context.identity.company_id, command.session_retention_days
        await self.open_retention(transaction).set_session_days(company_id, days)
        transaction.emit(RetentionUpdated(retention=retention_of(days, self.default)), subject=company_id)


@dataclass(frozen=True, slots=True)
class ReadRetention:
    reads: RetentionReads
    default: int | None

    async def __call__(self, company_id: str) -> Retention:
        return retention_of(await self.reads.session_days(company_id), self.default)
