"""Sets and returns how long a company's sessions are kept."""

from collections.abc import Callable
from dataclasses import dataclass

from libs.contracts.messages import CommandContext
from libs.contracts.resources.retention import Retention, RetentionUpdated, SetRetention
from libs.eventing import Transaction
from services.runtime.domain.retention import RetentionReads, RetentionWriter

OpenRetention = Callable[[Transaction], RetentionWriter]


@dataclass(frozen=True, slots=True)
class SessionRetention:
    """Sets and reads companies' retention periods. ``default`` is in days, or None to keep sessions forever."""

    open_retention: OpenRetention
    reads: RetentionReads
    default: int | None

    async def set(self, transaction: Transaction, command: SetRetention, context: CommandContext) -> None:
        company_id, days = context.identity.company_id, command.session_retention_days
        await self.open_retention(transaction).set_session_days(company_id, days)
        transaction.emit(RetentionUpdated(retention=self._of(days)), subject=company_id)

    async def read(self, company_id: str) -> Retention:
        return self._of(await self.reads.session_days(company_id))

    def _of(self, days: int | None) -> Retention:
        kept = self.default if days is None else days
        return Retention(session_retention_days=kept, default_session_retention_days=self.default)
