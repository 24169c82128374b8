"""Outcomes and payloads that are looked up at their owner."""

import hashlib
import time
from collections import Counter
from typing import Any, Final

import aiohttp
import orjson
import psycopg
import pytest
import pytest_asyncio

from libs.contracts.identifiers import new_id
from libs.contracts.identity import Scope
from libs.contracts.messages import CommandContext, MessageContext
from libs.eventing import CommandSender, IdentitySigner, LookUp, ReplyState, Transaction
from libs.persistence import Database
from libs.service_defaults import Service, UpstreamClient
from tests.integration.eventing.conftest import ALICE, SIGNING_KEY
from tests.integration.eventing.test_sample_owner import send_note, take_note
from tests.support import sample_owner
from tests.support.command_records import MALLORY
from tests.support.sample_owner import NoteTaken, TakeNote
from tests.support.waiting import WITHIN, until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def calls(owner: Service):
    calls = UpstreamClient({"notes": f"http://127.0.0.1:{owner.settings.port}"}, IdentitySigner(SIGNING_KEY))
    yield calls
    await calls.stop()


@pytest.mark.rule(4)
async def test_the_state_of_a_command_is_visible_to_its_company_only(
    owner: Service, sender: CommandSender, database: Database, calls: UpstreamClient
) -> None:
    command_id = new_id()
    assert await calls.command_state("notes", command_id, ALICE) == LookUp(ReplyState.WAITING)
    outcome = await take_note(sender, "buy rope", command_id=command_id)

    assert await calls.command_state("notes", command_id, ALICE) == LookUp(ReplyState.ANSWERED, outcome)
    assert (await calls.get("notes", f"/internal/commands/{command_id}", MALLORY)).status == 404

    await database.execute(
        "INSERT INTO inbox (consumer, message_id, company_id) VALUES ('commands', 'under way', %s)", (ALICE.company_id,)
    )
    assert (await calls.get("notes", "/internal/commands/under%20way", ALICE)).status == 202
    assert (await calls.get("notes", "/internal/commands/under%20way", MALLORY)).status == 404
    assert (await calls.get("notes", "/internal/commands/unheard-of", ALICE)).status == 404


@pytest.mark.rule(19)
async def test_a_large_payload_is_fetched_from_its_owner(
    owner: Service, sender: CommandSender, calls: UpstreamClient
) -> None:
    large, command_id = "n" * (600 * 1024), new_id()

    async def take(transaction: Transaction, command: TakeNote, context: CommandContext) -> None:
        transaction.emit(NoteTaken(note_id=command.text), subject=command.note_id)

    owner.commands.handle(TakeNote, take)
    async with sender.replies(command_id, TakeNote, ALICE) as replies:
        await send_note(sender, TakeNote(note_id=new_id(), text=large), command_id)
        # Not `outcome`: after a silence that asks for the outcome, which then comes whole.
        outcome = await replies.wait(WITHIN)
    owner.commands.handle(TakeNote, sample_owner.take_note)

    assert outcome.payload == NoteTaken(note_id=large).encode()
    assert outcome.envelope.data_hash == hashlib.sha256(outcome.payload).hexdigest()
    assert outcome.envelope.data_ref is not None
    assert (await calls.get("notes", outcome.envelope.data_ref, ALICE)).body == outcome.payload
    assert (await calls.get("notes", outcome.envelope.data_ref, MALLORY)).status == 404


async def test_operators_see_what_ended_with_an_internal_error(
    owner: Service, database: Database, calls: UpstreamClient
) -> None:
    async with owner.outbox.transaction(MessageContext("company", "label")) as transaction:
        transaction.emit(NoteTaken(note_id="n"), subject="n", cause="KeyError at services.notes:7")
        transaction.emit(NoteTaken(note_id="m"), subject="m")
    operator = ALICE.model_copy(update={"scopes": frozenset({Scope.INSTALLATION_READ})})

    async def failures(**params: str) -> list[tuple[str, str, str]]:
        answer = await calls.get("notes", "/internal/failures", operator, params)
        return [(each["subject"], each["correlation_id"], each["cause"]) for each in orjson.loads(answer.body)]

    assert await failures() == [("n", "label", "KeyError at services.notes:7")]
    assert await failures(correlation_id="label") == await failures()
    assert await failures(correlation_id="another") == []
    assert (await calls.get("notes", "/internal/failures", ALICE)).status == 403


@pytest.mark.parametrize("path", ["/internal/commands/x", "/internal/events/x/payload", "/internal/notes/x"])
async def test_internal_reads_need_a_token(owner: Service, path: str) -> None:
    expired = IdentitySigner(SIGNING_KEY).sign(ALICE, expires_at=time.time() - 1)
    url = f"http://127.0.0.1:{owner.settings.port}{path}"
    async with aiohttp.ClientSession() as session:
        for headers in ({}, {"Authorization": f"Bearer {expired}"}):
            async with session.get(url, headers=headers) as response:
                assert response.status == 401


# A process that is young looks twice a second who else lives: the measure of what else it asks for meanwhile. That is,
# once in four looks, what waits in the outbox. A timer of a tenth of a second would ask five times a look.
_LOOK: Final = "pg_lock_status"
_LOOKS: Final = 12
_MOST_A_LOOK: Final = 2


async def test_a_service_at_rest_leaves_its_database_alone(owner: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()
    execute = psycopg.AsyncCursor.execute

    async def counted(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        asked["look" if _LOOK in str(query) else str(query)] += 1
        return await execute(cursor, query, *arguments, **options)

    monkeypatch.setattr(psycopg.AsyncCursor, "execute", counted)
    await until(lambda: asked["look"] >= 2)
    asked.clear()
    await until(lambda: asked["look"] >= _LOOKS)
    assert 0 < asked.total() - asked["look"] <= _MOST_A_LOOK * _LOOKS, asked
