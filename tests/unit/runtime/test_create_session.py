"""Sessions of companies share transactions in turn."""

import asyncio
from collections.abc import Sequence

from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandContext, MessageContext
from libs.contracts.resources.sessions import CreateSession as Creation
from services.runtime.domain.sessions import SessionCreation
from services.runtime.use_cases.sessions.create import CreateSession


class MemoryCreations:
    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    async def add(self, creations: Sequence[SessionCreation]) -> None:
        self.batches.append([creation.session.company_id for creation in creations])


async def test_a_company_that_creates_many_sessions_leaves_others_a_place_in_the_first_transaction() -> None:
    creations = MemoryCreations()
    create = CreateSession(creations, lambda _: None)

    async def created(company_id: str) -> None:
        caller = Identity(company_id=company_id, user_id="user", key_id="key", scopes=frozenset())
        context = CommandContext(new_id(), caller, MessageContext(company_id, "correlation"), "2026-01-01T00:00:00Z")
        agent = {"agent_type": "llm_agent", "model": "openai:gpt-5"}
        await create(Creation(session_id=new_id(), agent_config=agent, config_hash="x"), context)

    await asyncio.gather(*[created(company_id) for company_id in ["busy"] * 100 + ["quiet"]])
    assert [(len(batch), "quiet" in batch) for batch in creations.batches] == [(64, True), (37, False)]
