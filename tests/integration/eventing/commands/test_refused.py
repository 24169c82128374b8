"""Commands that come too late, cannot be trusted or read, or are given up."""

import asyncio
from dataclasses import replace

import pytest

from libs.contracts.errors import ErrorKind
from libs.contracts.identifiers import new_id
from libs.contracts.messages import CommandContext, CommandRejected, Envelope, PoisonMessage
from libs.contracts.resources.keys import ApiKeyRevoked
from libs.contracts.timestamps import now_text
from libs.eventing import CommandRouter, IdentitySigner, RevokedKeys
from tests.integration.eventing.commands.conftest import COMMAND, notes, rejection, router_of
from tests.support import sample_owner
from tests.support.command_records import ALICE, MALLORY, SIGNING_KEY, command_record
from tests.support.event_owner import EventOwner
from tests.support.memory_bus import MemoryBus
from tests.support.sample_owner import NoteTaken, TakeNote
from tests.support.waiting import until


@pytest.mark.rule(6)
@pytest.mark.parametrize("late", [{"expires_in": -1}, {"sent_ago": 3 * 86_400 + 1, "expires_in": 10_000_000}])
async def test_an_expired_command_is_refused(owner: EventOwner, router: CommandRouter, late: dict[str, float]) -> None:
    await router.deliver(command_record(COMMAND, **late))
    assert (await rejection(owner)).error.type is ErrorKind.TIMEOUT
    assert await notes(owner) == []


async def test_a_command_that_was_carried_out_does_not_expire(owner: EventOwner, router: CommandRouter) -> None:
    command_id = new_id()
    await router.deliver(command_record(COMMAND, command_id=command_id))
    await router.deliver(command_record(COMMAND, command_id=command_id, expires_in=-1))
    await until(lambda: len(owner.producer.delivered) == 2)
    assert [envelope.type for envelope in owner.producer.envelopes] == [NoteTaken.TYPE] * 2


async def test_a_command_rejected_as_expired_is_not_handled_later(owner: EventOwner) -> None:
    router = router_of(owner)
    taken: list[str] = []

    async def take(command: TakeNote, context: CommandContext) -> None:
        taken.append(context.command_id)

    router.handle_raw(TakeNote, take)
    record = command_record(COMMAND, expires_in=-1)
    await router.deliver(record)
    await router.deliver(record)
    assert taken == []
    await until(lambda: len(owner.producer.delivered) == 2)
    assert owner.producer.delivered[0] == owner.producer.delivered[1]


async def test_a_command_accepted_before_its_expiry_is_given_to_its_handler_again(owner: EventOwner) -> None:
    router = router_of(owner)
    taken: list[str] = []

    async def take(command: TakeNote, context: CommandContext) -> None:
        taken.append(context.command_id)

    async def known(command_id: str, company_id: str) -> bool:
        return command_id in taken and company_id == ALICE.company_id

    router.handle_raw(TakeNote, take)
    router.lookups.append(known)
    await router.deliver(command_record(COMMAND, command_id="c"))
    await router.deliver(command_record(COMMAND, command_id="c", expires_in=-1))
    assert taken == ["c", "c"]
    assert await owner.rows("SELECT * FROM outbox") == []


@pytest.mark.rule(15)
async def test_a_key_that_was_revoked_before_the_command_was_made_has_no_authority(owner: EventOwner) -> None:
    bus = MemoryBus()
    revoked = RevokedKeys(bus)
    following = asyncio.create_task(revoked.run())
    router = router_of(owner, revoked)
    router.handle(TakeNote, sample_owner.take_note)
    before = command_record(COMMAND, command_id="before")
    await router.deliver(before)
    event = ApiKeyRevoked(key_id=ALICE.key_id)
    envelope = Envelope(
        id=new_id(),
        type=event.TYPE,
        source="/aes/gateway",
        subject=ALICE.key_id,
        time=now_text(),
        correlation_id="revocation",
        company_id=ALICE.company_id,
    )
    await bus.append("gateway-events", "revocation", event.encode(), envelope.headers())
    await until(lambda: revoked.was_revoked_before(ALICE.key_id, "9"))
    await router.deliver(command_record(COMMAND, command_id="after"))
    # A redelivery of what was asked for in time meets its outcome.
    await router.deliver(before)
    await until(lambda: len(owner.producer.delivered) == 3)
    taken, refused, repeated = owner.producer.envelopes
    assert (taken.type, refused.type, repeated.id) == (NoteTaken.TYPE, TakeNote.rejected_type(), taken.id)
    assert CommandRejected.decode(owner.producer.delivered[1][2]).error.type is ErrorKind.AUTHENTICATION
    following.cancel()


@pytest.mark.parametrize(
    "changes",
    [
        {"identity": None},
        {"signature": None},
        {"id": "another command's"},
        {"identity": IdentitySigner("x" * 40).sign(ALICE)},
        {"identity": IdentitySigner(SIGNING_KEY).sign(MALLORY)},
        {"company_id": "company-2"},
        {"expires_at": "soon"},
        {"time": "then"},
    ],
    ids=[
        "nobody's",
        "unsigned",
        "another id",
        "forged",
        "another company's identity",
        "another company",
        "expiry",
        "time",
    ],
)
async def test_what_cannot_be_trusted_or_read_is_poison(
    owner: EventOwner, router: CommandRouter, changes: dict[str, str | None]
) -> None:
    with pytest.raises(PoisonMessage):
        await router.deliver(command_record(COMMAND, **changes))
    assert await owner.rows("SELECT * FROM inbox") == []


async def test_headers_that_are_no_envelope_are_poison(owner: EventOwner, router: CommandRouter) -> None:
    record = replace(command_record(COMMAND), headers=[("ce_id", b"x")])
    with pytest.raises(PoisonMessage, match="missing"):
        await router.deliver(record)
    await router.give_up(record, "unreadable")
    assert await owner.rows("SELECT * FROM outbox") == []


async def test_unknown_types_are_ignored(owner: EventOwner, router: CommandRouter) -> None:
    await router.deliver(command_record(COMMAND, type="aes.notes.sing_note.v1"))
    assert await owner.rows("SELECT * FROM inbox") == []


async def test_an_undecodable_command_is_poison_and_ends_in_a_rejection(
    owner: EventOwner, router: CommandRouter
) -> None:
    record = command_record(COMMAND, value=b'{"note_id":')
    with pytest.raises(PoisonMessage, match=r"isn't a valid aes\.notes\.take_note\.v1"):
        await router.deliver(record)
    await router.give_up(record, "not readable")
    assert (await rejection(owner)).error.type is ErrorKind.INTERNAL
    await router.give_up(record, "not readable")
    assert len(await owner.rows("SELECT * FROM outbox")) == 1


@pytest.mark.parametrize(
    ("payload", "places"), [(b'{"note_id": 7}', [["note_id"], ["text"]]), (b"[]", [[]]), (b'"note"', [[]])]
)
async def test_a_command_that_is_invalid_here_is_rejected_once_with_details(
    owner: EventOwner, router: CommandRouter, payload: bytes, places: list[list[str]]
) -> None:
    record = command_record(COMMAND, value=payload)
    await router.deliver(record)
    error = (await rejection(owner)).error
    assert error.type is ErrorKind.VALIDATION
    assert [detail.loc for detail in error.details or ()] == places
    await router.deliver(record)
    await until(lambda: len(owner.producer.delivered) == 2)
    assert owner.producer.delivered[0] == owner.producer.delivered[1]
    assert len(await owner.rows("SELECT * FROM inbox")) == len(await owner.rows("SELECT * FROM outbox")) == 1


async def test_an_accepted_command_that_is_invalid_here_is_not_rejected(owner: EventOwner) -> None:
    router = router_of(owner)

    async def known(_command_id: str, _company_id: str) -> bool:
        return True

    router.handle(TakeNote, sample_owner.take_note)
    router.lookups.append(known)
    with pytest.raises(PoisonMessage):
        await router.deliver(command_record(COMMAND, value=b'{"note_id": 7}'))
    assert await owner.rows("SELECT * FROM outbox") == []


async def test_a_finished_command_is_not_given_up(owner: EventOwner, router: CommandRouter) -> None:
    record = command_record(COMMAND)
    await router.deliver(record)
    await router.give_up(record, "too late")
    assert await owner.rows("SELECT type FROM outbox") == [(NoteTaken.TYPE,)]


async def test_an_accepted_command_is_not_given_up(owner: EventOwner) -> None:
    router = router_of(owner)

    async def take(command: TakeNote, context: CommandContext) -> None:
        raise RuntimeError("after it was taken over")

    async def known(command_id: str, company_id: str) -> bool:
        return command_id == "taken" and company_id == ALICE.company_id

    router.handle_raw(TakeNote, take)
    router.lookups.append(known)
    await router.give_up(command_record(COMMAND, command_id="taken"), "failed for too long")
    assert await owner.rows("SELECT * FROM outbox") == []
    await router.give_up(command_record(COMMAND, command_id="unknown"), "failed for too long")
    given_up = "SELECT type, causation_id, cause FROM outbox"
    assert await owner.rows(given_up) == [(TakeNote.rejected_type(), "unknown", "failed for too long")]
