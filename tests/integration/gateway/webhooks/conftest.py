"""Companies with a timeline and webhooks in PostgreSQL."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.eventing import Outbox
from libs.persistence import Database, Presence
from services.gateway.adapters.postgres.keys import PostgresKeys
from services.gateway.administration import administration
from services.gateway.domain.idempotency import Write
from services.timeline.adapters.postgres.log import PostgresTimelineLog
from services.timeline.adapters.postgres.partitions import PostgresTimelinePartitions
from services.timeline.adapters.postgres.timeline import PostgresTimeline
from services.timeline.adapters.postgres.webhook_maintenance import PostgresWebhookMaintenance
from services.timeline.adapters.postgres.webhook_queue import PostgresWebhookQueue
from services.timeline.adapters.postgres.webhooks import PostgresWebhooks
from services.timeline.domain.webhooks import Webhook, WebhookSecret, WebhookStatus, secret_place
from tests.support.timeline import FakeTimeline, event
from tests.support.webhook_fakes import CIPHER, FakeWebhooks

START = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class Stores:
    """The parts under test, real or in memory."""

    store: Any
    queue: Any
    maintenance: Any
    log: Any
    timeline: Any
    keys: Any = None
    database_url: str = ""
    callers: list[Identity] = field(default_factory=list)

    async def caller(self, company: str = "Acme", user: str = "ada", *scopes: str) -> Identity:
        """A user with a key, which has those scopes."""
        granted = frozenset(scopes or ("webhooks:write", "company:read"))
        if not self.database_url:
            return Identity(company_id=f"id-of-{company}", user_id=f"id-of-{user}", key_id=new_id(), scopes=granted)
        async with administration(self.database_url) as gateway:
            if company not in {each.company_name for each in self.callers}:
                await gateway.create_company(company)
            if (company, user) not in {(each.company_name, each.user_name) for each in self.callers}:
                await gateway.create_user(company, user)
            key = (await gateway.create_key(company, user, scopes=granted)).key
        found = Identity(
            company_id=key.company_id,
            company_name=company,
            user_id=key.user_id,
            user_name=user,
            key_id=key.id,
            scopes=granted,
        )
        self.callers.append(found)
        return found

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
        await self.store.add(webhook, secret_of(webhook), write(caller), most=10)
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
    ciphertext = CIPHER.encrypt(text, place=secret_place(webhook.id, secret_id))
    return WebhookSecret(id=secret_id, webhook_id=webhook.id, ciphertext=ciphertext, created_at=moment)


def write(identity: Identity) -> Write:
    return Write(identity=identity, correlation_id="label")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test", plan_once=True, timeout=30.0)
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def real(database: Database, database_url: str) -> Stores:
    outbox, partitions = Outbox(database), PostgresTimelinePartitions(database)
    return Stores(
        store=PostgresWebhooks(database, outbox),
        queue=PostgresWebhookQueue(database, outbox, Presence(database_url, name="test")),
        maintenance=PostgresWebhookMaintenance(database),
        log=PostgresTimelineLog(database, partitions, now=lambda: datetime.now(UTC)),
        timeline=PostgresTimeline(database),
        keys=PostgresKeys(database, outbox),
        database_url=database_url,
    )


@pytest.fixture(params=["memory", "postgres"])
def stores(request: pytest.FixtureRequest) -> Stores:
    if request.param == "postgres":
        found: Stores = request.getfixturevalue("real")
        return found
    timeline = FakeTimeline()
    fake = FakeWebhooks(timeline=timeline)
    return Stores(store=fake, queue=fake, maintenance=fake, log=timeline, timeline=timeline)
