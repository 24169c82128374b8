"""Companies with a timeline and webhooks in PostgreSQL."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Command, CommandContext, Envelope, Event, MessageContext
from libs.contracts.resources.webhooks import DeleteWebhook, UpdateWebhook, WebhookStatus, secret_context
from libs.contracts.timestamps import format_time, now_text
from libs.eventing import Outbox, Transaction
from libs.persistence import Database, Presence
from services.timeline.adapters.postgres.log import PostgresTimelineLog
from services.timeline.adapters.postgres.partitions import PostgresTimelinePartitions
from services.timeline.adapters.postgres.timeline import PostgresTimeline
from services.timeline.adapters.postgres.webhook_maintenance import PostgresWebhookMaintenance
from services.timeline.adapters.postgres.webhook_queue import PostgresWebhookQueue
from services.timeline.adapters.postgres.webhooks import PostgresWebhookReader, PostgresWebhookWriter
from services.timeline.bootstrap import MIGRATIONS
from services.timeline.domain.webhooks import Webhook, WebhookSecret
from services.timeline.use_cases.webhooks import Webhooks
from tests.support.timeline import FakeTimeline, event
from tests.support.webhook_fakes import CIPHER, FakeEndpoints, FakeWebhooks

START = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class Stores:
    """The parts under test, real or in memory (no maintenance). ``webhooks`` are the use cases on them."""

    reader: Any
    queue: Any
    maintenance: Any
    log: Any
    timeline: Any
    webhooks: Webhooks
    writing: Callable[[Identity], AbstractAsyncContextManager[Transaction]]
    _ids: dict[str, str] = field(default_factory=dict)

    def caller(self, company: str = "Acme", user: str = "ada", *scopes: str) -> Identity:
        """A user with a new key, which has those scopes."""
        granted = frozenset(scopes or ("webhooks:write", "company:read"))
        company_id, user_id = (self._ids.setdefault(name, new_id()) for name in (company, f"{company}/{user}"))
        return Identity(
            company_id=company_id,
            company_name=company,
            user_id=user_id,
            user_name=user,
            key_id=new_id(),
            scopes=granted,
        )

    @asynccontextmanager
    async def writer(self, caller: Identity) -> AsyncIterator[Any]:
        """Changes in one transaction."""
        async with self.writing(caller) as transaction:
            yield self.webhooks.writers(transaction)

    async def dispatch(self, caller: Identity, handler: Any, command: Command, *prepared: Any) -> list[Event]:
        """Returns the events of a command."""
        context = CommandContext(new_id(), caller, message_of(caller), now_text())
        async with self.writing(caller) as transaction:
            await handler(transaction, command, context, *prepared)
            return [draft.message for draft in transaction.drafts]

    async def change(self, caller: Identity, webhook: Webhook, **fields: Any) -> Webhook:
        await self.dispatch(caller, self.webhooks.change, UpdateWebhook(webhook_id=webhook.id, **fields), None)
        found: Webhook = await self.reader.webhook(caller.company_id, webhook.id)
        return found

    async def delete(self, caller: Identity, webhook: Webhook) -> None:
        await self.dispatch(caller, self.webhooks.delete, DeleteWebhook(webhook_id=webhook.id))

    async def react(self, caller: Identity, handler: Any, event: Event, time: datetime = START) -> list[Event]:
        """The events that follow from one of the gateway's."""
        async with self.writing(caller) as transaction:
            await handler(transaction, event, envelope_at(time, event))
            return [draft.message for draft in transaction.drafts]

    async def webhook(self, caller: Identity, *types: str, url: str = "https://example.com/") -> Webhook:
        webhook = Webhook(
            id=new_id(),
            company_id=caller.company_id,
            user_id=caller.user_id,
            key_id=caller.key_id,
            sees_company=caller.reads_company,
            url=url,
            event_types=types or ("*",),
            description="",
            status=WebhookStatus.ENABLED,
            disabled_reason=None,
            created_at=START,
            updated_at=START,
        )
        async with self.writer(caller) as writer:
            await writer.add(webhook, secret_of(webhook), most=10)
        return webhook

    async def happen(self, caller: Identity, subject: str = "", *, times: int = 1, **fields: Any) -> list[str]:
        """Ids of new events of one subject."""
        subject = subject or new_id()
        events = [
            event(company_id=caller.company_id, subject=subject, sequence=number, **fields)
            for number in range(1, times + 1)
        ]
        await self.log.store(events, {})
        return [each.id for each in events]


def secret_of(webhook: Webhook, text: str = "whsec_c2VjcmV0", moment: datetime = START) -> WebhookSecret:
    secret_id = new_id()
    ciphertext = CIPHER.encrypt(text, context=secret_context(webhook.id, secret_id))
    return WebhookSecret(id=secret_id, webhook_id=webhook.id, ciphertext=ciphertext, created_at=moment)


def message_of(identity: Identity) -> MessageContext:
    return MessageContext(identity.company_id, "label")


def envelope_at(time: datetime, event: Event) -> Envelope:
    return Envelope(
        id=new_id(), type=event.TYPE, source="/aes/gateway", subject=new_id(), time=format_time(time),
        correlation_id="label", company_id="",
    )  # fmt: skip


@pytest.fixture
def migrations() -> Path:
    return MIGRATIONS


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test", plan_once=True, timeout=30.0)
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def real(database: Database, database_url: str) -> Stores:
    outbox, partitions = Outbox(database), PostgresTimelinePartitions(database)
    reader = PostgresWebhookReader(database)
    return Stores(
        reader=reader,
        queue=PostgresWebhookQueue(database, outbox, Presence(database_url, name="test")),
        maintenance=PostgresWebhookMaintenance(database),
        log=PostgresTimelineLog(database, partitions, now=lambda: datetime.now(UTC)),
        timeline=PostgresTimeline(database),
        webhooks=Webhooks(reader, PostgresWebhookWriter, FakeEndpoints(), lambda: START),
        writing=lambda caller: outbox.transaction(message_of(caller)),
    )


@pytest.fixture(params=["memory", "postgres"])
def stores(request: pytest.FixtureRequest) -> Stores:
    if request.param == "postgres":
        found: Stores = request.getfixturevalue("real")
        return found
    timeline = FakeTimeline()
    fake = FakeWebhooks(timeline)
    webhooks = Webhooks(fake, lambda _: fake, FakeEndpoints(), lambda: START)

    @asynccontextmanager
    async def writing(caller: Identity) -> AsyncIterator[Transaction]:
        yield Transaction(None, message_of(caller))  # type: ignore[arg-type]

    return Stores(fake, fake, None, timeline, timeline, webhooks, writing)
