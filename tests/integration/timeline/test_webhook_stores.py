"""One suite for webhooks in PostgreSQL and for those in memory, as far as deliveries on a fake clock need them."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest

from libs.contracts.error_catalogue import DisabledReason
from libs.contracts.errors import Conflict
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.resources.keys import ApiKeyCreated, ApiKeyRevoked
from libs.contracts.resources.webhooks import (
    CreateWebhook,
    Redeliver,
    RotateWebhookSecret,
    SendTestEvent,
    WebhookDisabled,
    WebhookStatus,
    WebhookUpdated,
)
from libs.eventing import Outbox
from libs.persistence import Database, Presence
from libs.secrets import SecretCipher
from services.timeline.adapters.postgres.webhook_queue import PostgresWebhookQueue
from services.timeline.domain.deliveries import (
    GIVE_UP_AFTER,
    Answer,
    DeliveryStatus,
    DueDelivery,
    outcome_of,
    pending_delivery,
)
from services.timeline.domain.ports import ClaimedWebhook
from services.timeline.domain.webhooks import Webhook, WebhookNotFound, WriterRevoked
from tests.integration.timeline.conftest import START, Stores, secret_of
from tests.support.waiting import until
from tests.support.webhook_fakes import CIPHER, sealed

WORKER, OTHER = new_id(), new_id()
# Seconds. Ends within no test, however slow the machine.
LEASE = 3600
OK, DOWN = Answer(200, "fine\0"), Answer(None, "the host can't be reached")
SECOND = timedelta(seconds=1)


class _TooMany(Exception):
    """Rolls a transaction back."""


async def held(stores: Stores, webhook: Webhook, worker: str = WORKER) -> ClaimedWebhook:
    await stores.queue.renew(worker, LEASE)
    await stores.queue.claim(worker, now=START, limit=10)
    claimed: ClaimedWebhook | None = await stores.queue.claimed(worker, webhook.id, now=START)
    assert claimed is not None
    return claimed


async def pick_up(stores: Stores, webhook: Webhook, worker: str = WORKER) -> bool:
    claimed = await stores.queue.claimed(worker, webhook.id, now=START) or await held(stores, webhook, worker)
    page = await stores.timeline.page(webhook.wanted, after=claimed.cursor, limit=100)
    found = [pending_delivery(new_id(), webhook.id, each, START) for each in page.events]
    return await stores.queue.pick_up(worker, claimed, found, cursor=await stores.timeline.head(webhook.company_id))


async def due(stores: Stores, webhook: Webhook, *without: str, chains: int = 10) -> Sequence[Sequence[DueDelivery]]:
    claimed = await stores.queue.claimed(WORKER, webhook.id, now=START)
    assert claimed is not None
    return await stores.queue.due(claimed, now=START, without=without, chains=chains)


def ids(chains: Sequence[Sequence[DueDelivery]]) -> list[list[str]]:
    return sorted([each.event_id for each in chain] for chain in chains)


async def test_a_company_has_no_more_than_it_may(stores: Stores) -> None:
    ada = stores.caller()
    for _ in range(10):
        await stores.webhook(ada)
    with pytest.raises(Conflict):
        await stores.webhook(ada)
    page = await stores.reader.webhooks(ada, limit=3, offset=0)
    kept, total = page.items, page.total
    assert (len(kept), total) == (3, 10)
    await stores.delete(ada, kept[0])
    await stores.webhook(ada)


async def test_events_before_the_webhook_are_not_picked_up(stores: Stores) -> None:
    ada = stores.caller()
    await stores.happen(ada)
    webhook = await stores.webhook(ada)
    await stores.queue.renew(WORKER, 60)
    assert await stores.queue.claim(WORKER, now=START, limit=10) == []
    (event_id,) = await stores.happen(ada)
    assert await pick_up(stores, webhook)
    ((delivery,),) = await due(stores, webhook)
    assert delivery.event_id == event_id
    assert delivery.event is not None
    assert f'"id":"{event_id}"'.encode() in delivery.event


async def test_one_worker_has_a_webhook_at_a_time(stores: Stores) -> None:
    ada = stores.caller()
    webhook = await stores.webhook(ada)
    await stores.happen(ada)
    for worker in (WORKER, OTHER):
        await stores.queue.renew(worker, LEASE)
    assert await stores.queue.claim(WORKER, now=START, limit=10) == [webhook.id]
    assert await stores.queue.claim(OTHER, now=START, limit=10) == []
    assert await stores.queue.claimed(OTHER, webhook.id, now=START) is None
    await stores.queue.release(OTHER, [webhook.id])
    assert await stores.queue.claimed(WORKER, webhook.id, now=START) is not None
    await stores.queue.end(WORKER)
    assert await stores.queue.claim(OTHER, now=START, limit=10) == [webhook.id]


async def test_companies_take_turns(stores: Stores) -> None:
    ada, eve = stores.caller(), stores.caller("Other", "eve")
    for _ in range(4):
        await stores.webhook(ada)
    own = await stores.webhook(eve)
    for caller in (ada, eve):
        await stores.happen(caller)
    await stores.queue.renew(WORKER, 60)
    first = await stores.queue.claim(WORKER, now=START, limit=2)
    assert own.id in first
    assert len(await stores.queue.claim(WORKER, now=START, limit=10)) == 3


@pytest.mark.rule(32)
async def test_the_cursor_moves_with_the_deliveries_and_once(stores: Stores) -> None:
    ada = stores.caller()
    webhook = await stores.webhook(ada, "thing.*")
    await stores.happen(ada, times=3)
    await stores.happen(ada, type="other.thing")
    stale = await held(stores, webhook)
    assert await pick_up(stores, webhook)
    assert not await stores.queue.pick_up(WORKER, stale, [], cursor=99)
    again = await stores.queue.claimed(WORKER, webhook.id, now=START)
    assert again.cursor == await stores.timeline.head(ada.company_id)
    total = (await stores.reader.deliveries(webhook.id, limit=1, offset=0)).total
    assert total == 3


async def test_a_chain_is_due_from_its_first_delivery_on(stores: Stores) -> None:
    ada = stores.caller()
    webhook = await stores.webhook(ada)
    first, second = await stores.happen(ada, "a", times=7), await stores.happen(ada, "b", times=2)
    await pick_up(stores, webhook)
    later = await stores.happen(ada, "b", times=1)
    await pick_up(stores, webhook)
    assert ids(await due(stores, webhook)) == sorted([first[:5], [*second, *later]])
    assert ids(await due(stores, webhook, "a")) == [[*second, *later]]
    assert len(await due(stores, webhook, chains=1)) == 1
    kept = (await stores.reader.deliveries(webhook.id, limit=20, offset=0)).items
    assert sum(each.next_attempt_at is not None for each in kept) == 2


@pytest.mark.rule(32)
async def test_outcomes_let_lanes_go_on(stores: Stores) -> None:
    ada = stores.caller()
    webhook = await stores.webhook(ada)
    first, second = await stores.happen(ada, "a", times=7), await stores.happen(ada, "b", times=2)
    await pick_up(stores, webhook)
    chains = {chain[0].chain: chain for chain in await due(stores, webhook)}
    outcomes = [*(outcome_of(each, OK, START) for each in chains["a"]), outcome_of(chains["b"][0], DOWN, START)]
    assert await stores.queue.record(WORKER, webhook, outcomes, now=START)
    assert ids(await due(stores, webhook)) == [first[5:]]
    failing = await stores.queue.claimed(WORKER, webhook.id, now=START)
    assert not failing.is_failing, "something got through"
    kept = {each.event_id: each for each in (await stores.reader.deliveries(webhook.id, limit=20, offset=0)).items}
    assert (kept[first[0]].status, kept[first[0]].last_status) == (DeliveryStatus.DELIVERED, 200)
    assert (kept[second[0]].status, kept[second[0]].attempts) == (DeliveryStatus.PENDING, 1)
    assert kept[second[0]].next_attempt_at == START + 5 * SECOND
    assert kept[second[1]].next_attempt_at is None


async def test_what_another_worker_recorded_stays(stores: Stores) -> None:
    ada = stores.caller()
    webhook = await stores.webhook(ada)
    await stores.happen(ada)
    await pick_up(stores, webhook)
    ((delivery,),) = await due(stores, webhook)
    late = [outcome_of(delivery, DOWN, START)]
    assert await stores.queue.record(WORKER, webhook, [outcome_of(delivery, OK, START)], now=START)
    assert await stores.queue.record(WORKER, webhook, late, now=START)
    assert not await stores.queue.record(OTHER, webhook, late, now=START)
    [kept] = (await stores.reader.deliveries(webhook.id, limit=20, offset=0)).items
    assert (kept.status, kept.attempts) == (DeliveryStatus.DELIVERED, 1)


async def test_changes_at_the_same_time_are_all_kept(stores: Stores) -> None:
    ada = stores.caller()
    webhook = await stores.webhook(ada)
    await asyncio.gather(
        *(
            stores.change(ada, webhook, **{name: value})
            for name, value in {"url": "https://example.org/", "description": "new", "event_types": ("turn.*",)}.items()
        ),
        stores.change(ada, webhook, status="disabled"),
    )
    kept = await stores.reader.webhook(ada.company_id, webhook.id)
    assert (kept.url, kept.description, kept.event_types) == ("https://example.org/", "new", ("turn.*",))
    assert kept.status is WebhookStatus.DISABLED


async def test_a_webhook_is_given_up_and_enabled_again(stores: Stores) -> None:
    ada = stores.caller()
    webhook = await stores.webhook(ada)
    await stores.happen(ada, "a", times=2)
    await pick_up(stores, webhook)
    delivery, now = (await due(stores, webhook))[0][0], START
    for attempt in range(6):
        now = START + attempt * GIVE_UP_AFTER / 5
        tried = replace(delivery, attempts=attempt)
        assert await stores.queue.record(WORKER, webhook, [outcome_of(tried, DOWN, now)], now=now)
        (failing,) = (await stores.reader.webhooks(ada, limit=1, offset=0)).items
        assert failing.failing_since == START
    found = await stores.reader.webhook(ada.company_id, webhook.id)
    assert (found.status, found.disabled_reason) == (WebhookStatus.DISABLED, DisabledReason.UNREACHABLE)
    assert await stores.queue.claimed(WORKER, webhook.id, now=now) is None
    enabled = replace(found, status=WebhookStatus.ENABLED, disabled_reason=None, failing_since=None, updated_at=now)
    async with stores.writer(ada) as writer:
        await writer.save(found, enabled)
    assert await stores.reader.webhook(ada.company_id, webhook.id) == enabled
    claimed = await stores.queue.claimed(WORKER, webhook.id, now=now)
    (chain,) = await stores.queue.due(claimed, now=now, without=[], chains=5)
    assert [each.attempts for each in chain] == [6, 0]
    assert not claimed.is_failing


async def test_secrets_sign_until_they_expire(stores: Stores) -> None:
    ada = stores.caller()
    webhook = await stores.webhook(ada)
    await stores.happen(ada)
    for number in range(1, 5):
        secret = secret_of(webhook, f"whsec_{number}", START + number * SECOND)
        with suppress(_TooMany):
            async with stores.writer(ada) as writer:
                added = await writer.replace_secret(secret, old_expires_at=START + timedelta(hours=1), most=4)
                assert added is (number < 4)
                if not added:
                    raise _TooMany
    claimed = await held(stores, webhook)
    texts = [CIPHER.decrypt(each.ciphertext, context=each.context) for each in claimed.secrets]
    assert texts == ["whsec_3", "whsec_2", "whsec_1", "whsec_c2VjcmV0"]
    later = await stores.queue.claimed(WORKER, webhook.id, now=START + timedelta(hours=1))
    assert len(later.secrets) == 1


async def test_secrets_are_encrypted_under_the_newest_key(real: Stores) -> None:
    ada = real.caller()
    webhook = await real.webhook(ada)
    new = SecretCipher([b"n" * 32, b"k" * 32])
    assert (await real.maintenance.reencrypt(CIPHER)).changed == 0
    assert (await real.maintenance.reencrypt(new)).changed == 1
    assert (await real.maintenance.reencrypt(new)).changed == 0
    await real.happen(ada)
    (secret,) = (await held(real, webhook)).secrets
    assert SecretCipher([b"n" * 32]).decrypt(secret.ciphertext, context=secret.context) == "whsec_c2VjcmV0"


async def test_old_deliveries_are_purged_but_for_those_that_wait(real: Stores) -> None:
    ada = real.caller()
    webhook, other = await real.webhook(ada), await real.webhook(ada)
    await real.happen(ada, "a", times=3)
    for each in (webhook, other):
        await pick_up(real, each)
    (chain,) = await due(real, webhook)
    await real.queue.record(WORKER, webhook, [outcome_of(each, OK, START) for each in chain[:2]], now=START)
    weeks = {"keep": timedelta(days=7), "keep_pending": timedelta(days=30), "limit": 100}
    assert await real.maintenance.purge(now=START + timedelta(days=6), **weeks) == 0
    assert await real.maintenance.purge(now=START + timedelta(days=31), **weeks) == 2
    await real.change(ada, webhook, status="disabled")
    assert await real.maintenance.purge(now=START + timedelta(days=29), **weeks) == 0
    assert await real.maintenance.purge(now=START + timedelta(days=31), **weeks) == 1
    await real.delete(ada, other)
    assert await real.maintenance.purge(now=START, **weeks) == 3
    assert (await real.maintenance.backlog(now=START)).pending == 0


async def test_the_backlog_is_measured(real: Stores) -> None:
    ada = real.caller()
    webhook = await real.webhook(ada)
    await real.happen(ada, "a", times=2)
    assert (await real.maintenance.backlog(now=START)).events_behind == 2
    await pick_up(real, webhook)
    backlog = await real.maintenance.backlog(now=START + 9 * SECOND)
    assert (backlog.pending, backlog.overdue_seconds, backlog.events_behind) == (2, 9.0, 0)


async def test_a_webhook_that_fails_is_left_alone_while_it_rests(stores: Stores) -> None:
    ada = stores.caller()
    webhook = await stores.webhook(ada)
    await stores.happen(ada, "a")
    await stores.happen(ada, "b")
    await pick_up(stores, webhook)
    first, second = [chain[0] for chain in await due(stores, webhook)]
    since, last = START - timedelta(minutes=1), START - timedelta(seconds=20)
    for delivery, moment in ((first, since), (second, last)):
        await stores.queue.record(WORKER, webhook, [outcome_of(delivery, DOWN, moment)], now=moment)
    await stores.queue.release(WORKER, [webhook.id])
    # It has failed for 40 s.
    assert await stores.queue.claim(WORKER, now=last + 4.9 * SECOND, limit=1) == []
    [_] = await stores.queue.claim(WORKER, now=last + 5 * SECOND, limit=1)
    claimed = await stores.queue.claimed(WORKER, webhook.id, now=START)
    assert [claimed.is_resting(last + number * SECOND) for number in (4.9, 5)] == [True, False]
    late = START + timedelta(hours=1)
    newest_first = await stores.queue.due(claimed, now=late, without=(), chains=1)
    assert [[each.id for each in chain] for chain in newest_first] == [[second.id]]


async def test_what_somebody_asked_for_is_due_while_a_webhook_rests(stores: Stores) -> None:
    ada = stores.caller()
    webhook = await stores.webhook(ada)
    await stores.happen(ada, "a")
    await pick_up(stores, webhook)
    [delivered] = (await stores.reader.deliveries(webhook.id, limit=1, offset=0)).items
    ((first,),) = await due(stores, webhook)
    await stores.queue.record(WORKER, webhook, [outcome_of(first, OK, START)], now=START)
    for subject in "bc":
        await stores.happen(ada, subject)
    await pick_up(stores, webhook)
    last = START + timedelta(minutes=10)
    for (delivery,), moment in zip(await due(stores, webhook), (START, last), strict=True):
        await stores.queue.record(WORKER, webhook, [outcome_of(delivery, DOWN, moment)], now=moment)
    await stores.queue.release(WORKER, [webhook.id])
    now = last + 10 * SECOND
    assert await stores.queue.claim(WORKER, now=now, limit=1) == []

    asked = last - 15 * SECOND
    test = replace(delivered, id=new_id(), event_id=new_id(), type="webhook.test", next_attempt_at=asked)
    async with stores.writer(ada) as writer:
        await writer.add_test(replace(test, chain=test.id, position=0), b"{}")
        await writer.deliver_again(webhook.id, delivered.id, now=asked)
    assert len(await stores.queue.claim(WORKER, now=now, limit=1)) == 1
    claimed = await stores.queue.claimed(WORKER, webhook.id, now=now)
    assert claimed.is_resting(now)
    assert claimed.streak.last == last
    found = await stores.queue.due(claimed, now=now, without=(), chains=10)
    assert ids(found) == sorted([[test.event_id], [delivered.event_id]])
    outcomes = [outcome_of(each, DOWN, now) for (each,) in found]
    await stores.queue.record(WORKER, webhook, outcomes, now=now)
    await stores.queue.release(WORKER, [webhook.id])
    assert await stores.queue.claim(WORKER, now=now + 10 * SECOND, limit=1) == [], "each is asked for once"
    assert len(await stores.queue.claim(WORKER, now=now + 31 * SECOND, limit=1)) == 1


async def test_a_single_chain_that_fails_lets_no_webhook_rest(stores: Stores) -> None:
    ada = stores.caller()
    webhook = await stores.webhook(ada)
    await stores.happen(ada, "a", times=3)
    await pick_up(stores, webhook)
    ((delivery, *_),) = await due(stores, webhook)
    last = START + timedelta(minutes=10)
    for attempts, moment in enumerate((START, last)):
        tried = replace(delivery, attempts=attempts)
        await stores.queue.record(WORKER, webhook, [outcome_of(tried, DOWN, moment)], now=moment)
    await stores.queue.release(WORKER, [webhook.id])
    await stores.happen(ada, "b")
    assert len(await stores.queue.claim(WORKER, now=last, limit=1)) == 1
    claimed = await stores.queue.claimed(WORKER, webhook.id, now=last)
    assert claimed.is_failing
    assert not claimed.is_resting(last)


async def test_a_webhook_that_failed_and_is_not_attempted_any_more_is_late(real: Stores) -> None:
    ada = real.caller()
    webhook = await real.webhook(ada)
    await real.happen(ada, "a")
    await real.happen(ada, "b")
    await pick_up(real, webhook)
    ((delivery,),) = await due(real, webhook, chains=1)
    last = START + timedelta(minutes=1)
    await real.queue.record(WORKER, webhook, [outcome_of(delivery, DOWN, last)], now=last)
    await real.happen(ada, "c")

    resting = await real.maintenance.backlog(now=last + timedelta(minutes=4))
    assert (resting.overdue_seconds, resting.events_behind) == (0, 0), "it waits for its endpoint"
    late = await real.maintenance.backlog(now=last + timedelta(minutes=6))
    assert (late.overdue_seconds, late.events_behind) == (360, 1), "it waits for a worker"


async def test_a_deleted_webhook_is_nobodys(stores: Stores) -> None:
    ada = stores.caller()
    webhook = await stores.webhook(ada)
    await stores.happen(ada)
    claimed = await held(stores, webhook)
    await stores.delete(ada, webhook)
    assert not await stores.queue.pick_up(WORKER, claimed, [], cursor=1)
    assert not await stores.queue.record(WORKER, webhook, [], now=START)
    with pytest.raises(WebhookNotFound):
        await stores.change(ada, webhook, status="disabled")
    rotation = RotateWebhookSecret(webhook_id=webhook.id, secret=sealed("whsec_1", webhook.id), grace_seconds=0)
    with pytest.raises(WebhookNotFound):
        await stores.dispatch(ada, stores.webhooks.rotate_secret, rotation)
    assert await stores.queue.claim(OTHER, now=START, limit=10) == []


async def emitted(database: Database) -> list[tuple[str, str]]:
    return await database.execute("SELECT type, owner_id FROM outbox WHERE type LIKE '%%webhook%%' ORDER BY id")


async def test_every_change_has_its_event(real: Stores, database: Database) -> None:
    ada = real.caller()
    webhook = await real.webhook(ada)
    await real.change(ada, webhook, status="disabled")
    rotation = RotateWebhookSecret(webhook_id=webhook.id, secret=sealed("whsec_1", webhook.id), grace_seconds=3600)
    await real.dispatch(ada, real.webhooks.rotate_secret, rotation)
    await real.delete(ada, webhook)
    names = ["updated", "disabled", "updated", "deleted"]
    assert await emitted(database) == [(f"aes.timeline.webhook.{name}.v1", ada.user_id) for name in names]


def replaced(caller: Identity, successor: str) -> ApiKeyCreated:
    return ApiKeyCreated(key_id=successor, prefix="aes_", user_id=caller.user_id, replaces=caller.key_id)


def creation() -> CreateWebhook:
    return CreateWebhook(
        url="https://example.com/", event_types=("*",), description="", status=WebhookStatus.ENABLED,
        secret=sealed("whsec_1", new_id()),
    )  # fmt: skip


LATER = START + SECOND


async def test_revoking_a_key_disables_its_webhooks_and_rotating_it_does_not(real: Stores) -> None:
    ada, successor = real.caller(), new_id()
    webhook = await real.webhook(ada)
    assert await real.react(ada, real.webhooks.key_created, replaced(ada, successor)) == []
    moved = await real.reader.webhook(ada.company_id, webhook.id)
    assert (moved.status, moved.key_id) == (WebhookStatus.ENABLED, successor)
    assert await real.react(ada, real.webhooks.key_revoked, ApiKeyRevoked(key_id=ada.key_id)) == []
    assert (await real.reader.webhook(ada.company_id, webhook.id)).status is WebhookStatus.ENABLED
    [disabled] = await real.react(ada, real.webhooks.key_revoked, ApiKeyRevoked(key_id=successor))
    assert disabled == WebhookDisabled(webhook_id=webhook.id, user_id=ada.user_id, reason="key_revoked")
    found = await real.reader.webhook(ada.company_id, webhook.id)
    assert (found.status, found.disabled_reason) == (WebhookStatus.DISABLED, DisabledReason.KEY_REVOKED)


async def test_a_rotation_that_is_heard_of_after_a_revocation_has_the_same_end(real: Stores) -> None:
    """Events about two keys may come in either order."""
    ada, bob = real.caller(), real.caller("Acme", "bob")
    kept, ended = await real.webhook(ada), await real.webhook(bob)
    of_old = ApiKeyRevoked(key_id=ada.key_id)
    await real.react(ada, real.webhooks.key_revoked, of_old, LATER)
    [enabled] = await real.react(ada, real.webhooks.key_created, replaced(ada, successor := new_id()))
    assert isinstance(enabled, WebhookUpdated)
    found = await real.reader.webhook(ada.company_id, kept.id)
    assert (found.status, found.disabled_reason, found.key_id) == (WebhookStatus.ENABLED, None, successor)
    gone = new_id()
    await real.react(bob, real.webhooks.key_revoked, ApiKeyRevoked(key_id=gone), LATER)
    [disabled] = await real.react(bob, real.webhooks.key_created, replaced(bob, gone))
    assert isinstance(disabled, WebhookDisabled)
    found = await real.reader.webhook(bob.company_id, ended.id)
    assert (found.status, found.disabled_reason, found.key_id) == ("disabled", "key_revoked", gone)


async def test_what_was_made_with_a_replaced_key_afterwards_ends_with_it(real: Stores) -> None:
    ada = real.caller()
    webhook = await real.webhook(ada)
    await real.react(ada, real.webhooks.key_created, replaced(ada, new_id()), START - SECOND)
    assert (await real.reader.webhook(ada.company_id, webhook.id)).key_id == ada.key_id


async def test_no_webhook_comes_to_stand_on_a_revoked_key(real: Stores) -> None:
    ada, other = real.caller(), real.caller()
    webhook = await real.change(ada, await real.webhook(ada), status="disabled")
    await real.react(other, real.webhooks.key_revoked, ApiKeyRevoked(key_id=other.key_id))
    with pytest.raises(WriterRevoked):
        await real.dispatch(other, real.webhooks.create, creation(), None)
    with pytest.raises(WriterRevoked):
        await real.change(other, webhook, status="enabled")
    assert (await real.reader.webhook(ada.company_id, webhook.id)).key_id == ada.key_id


async def test_a_webhook_that_is_made_while_its_key_is_revoked_does_not_stay_enabled(real: Stores) -> None:
    """Whichever of both transactions has the key first, the other one waits for its end."""
    ada = real.caller()
    revoked = ApiKeyRevoked(key_id=ada.key_id)
    creations = [real.dispatch(ada, real.webhooks.create, creation(), None) for _ in range(5)]
    results = await asyncio.gather(
        *creations, real.react(ada, real.webhooks.key_revoked, revoked), return_exceptions=True
    )
    assert all(isinstance(each, list | WriterRevoked) for each in results), results
    page = await real.reader.webhooks(ada, limit=10, offset=0)
    assert {each.status for each in page.items} <= {WebhookStatus.DISABLED}


async def test_a_pending_delivery_begins_anew_and_its_chain_goes_on_without_it(stores: Stores) -> None:
    ada = stores.caller()
    webhook = await stores.webhook(ada)
    first, second, third = await stores.happen(ada, "a", times=3)
    await pick_up(stores, webhook)
    ((tried, *_),) = await due(stores, webhook)
    await stores.queue.record(WORKER, webhook, [outcome_of(tried, DOWN, START)], now=START)
    listed = (await stores.reader.deliveries(webhook.id, limit=5, offset=0)).items
    by_event = {delivery.event_id: delivery for delivery in listed}
    # The last waits for those before it, the first for its next attempt.
    for event_id in (third, first):
        async with stores.writer(ada) as writer:
            await writer.deliver_again(webhook.id, by_event[event_id].id, now=START)
    assert ids(await due(stores, webhook)) == sorted([[first], [second], [third]])
    begun = await stores.reader.delivery(webhook.id, by_event[first].id)
    assert (begun.status, begun.attempts, begun.next_attempt_at) == ("pending", 0, START)


async def test_a_deleted_webhook_gets_no_more_deliveries(real: Stores, database: Database) -> None:
    ada = real.caller()
    webhook = await real.webhook(ada)
    (event_id,) = await real.happen(ada)
    await pick_up(real, webhook)
    [delivery] = (await real.reader.deliveries(webhook.id, limit=5, offset=0)).items
    await real.delete(ada, webhook)
    again = Redeliver(webhook_id=webhook.id, delivery_id=delivery.id)
    for handler, command in (
        (real.webhooks.send_test, SendTestEvent(webhook_id=webhook.id)),
        (real.webhooks.deliver_again, again),
    ):
        with pytest.raises(WebhookNotFound):
            await real.dispatch(ada, handler, command)
    assert await database.execute("SELECT event_id FROM webhook_deliveries") == [(event_id,)]


async def test_two_workers_claim_no_webhook_twice(real: Stores) -> None:
    ada = real.caller()
    webhooks = [await real.webhook(ada) for _ in range(10)]
    await real.happen(ada)
    workers = [new_id() for _ in range(5)]
    for worker in workers:
        await real.queue.renew(worker, LEASE)
    claimed = await asyncio.gather(*(real.queue.claim(worker, now=START, limit=4) for worker in workers * 3))
    found = [webhook_id for each in claimed for webhook_id in each]
    assert sorted(found) == sorted(each.id for each in webhooks)


async def test_a_dead_workers_webhooks_are_claimed_when_its_lease_ends(real: Stores, database: Database) -> None:
    ada = real.caller()
    webhook = await real.webhook(ada)
    await real.happen(ada)
    await real.queue.renew(WORKER, LEASE)
    assert len(await real.queue.claim(WORKER, now=START, limit=1)) == 1
    await real.queue.renew(OTHER, LEASE)
    assert await real.queue.claim(OTHER, now=START, limit=1) == []
    await database.execute("UPDATE webhook_workers SET lease_expires_at = now() WHERE id = %s", (WORKER,))
    assert len(await real.queue.claim(OTHER, now=START, limit=1)) == 1
    assert await real.queue.claimed(WORKER, webhook.id, now=START) is None


@pytest.mark.failover("webhooks")
async def test_the_webhooks_of_a_killed_process_are_claimed_before_its_lease_ends(
    real: Stores, database: Database, database_url: str
) -> None:
    ada = real.caller()
    webhook = await real.webhook(ada)
    await real.happen(ada)
    killed, other = [Presence(database_url, name="test", grace=0.2) for _ in range(2)]
    dying, living = [PostgresWebhookQueue(database, Outbox(database), each) for each in (killed, other)]
    tasks = [asyncio.create_task(each.run()) for each in (killed, other)]
    await asyncio.gather(killed.held.wait(), other.held.wait())
    await dying.renew(WORKER, 600)
    await living.renew(OTHER, 600)
    assert len(await dying.claim(WORKER, now=START, limit=1)) == 1
    assert await living.claim(OTHER, now=START, limit=1) == []
    # Its connection closes, as that of a killed process does.
    tasks[0].cancel()
    await until(lambda: living.claim(OTHER, now=START, limit=1))
    assert await living.claimed(WORKER, webhook.id, now=START) is None
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
