"""Reads agents, knowledge bases, passages and conversations for the tools."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from libs.contracts.errors import Conflict, NotFound
from libs.contracts.identifiers import is_agent_key, is_id
from libs.contracts.identity import Identity
from libs.contracts.resources.agents import Agent
from libs.contracts.resources.knowledge_bases import KnowledgeBase, KnowledgeBasePage, SearchReply
from libs.contracts.resources.sessions import Session
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.application import Door
from services.gateway.entrypoints.mcp import schemas

_MOST_AGENTS: Final = 50
"""The maximum number of agents that have a separate tool."""
_PAGE: Final = 200
_MOST_MESSAGES: Final = 100
_ASK: Final = "ask_"
_LONGEST_NAME: Final = 64
"""The maximum length of a tool name that all models accept."""


def ask_name(agent_key: str) -> str:
    """Returns the name of the tool that asks an agent. A digest keeps shortened names distinct."""
    name = _ASK + agent_key
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(agent_key.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - len(digest) - 1]}_{digest}"


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads data for one request. Methods raise ``NotFound`` for anything that the caller can't see."""

    door: Door

    async def newest_agents(self, identity: Identity) -> Sequence[Agent]:
        """Returns the agents that have a separate tool."""
        return await self.door.agents.visible_to(identity, limit=_MOST_AGENTS)

    async def key_of(self, identity: Identity, tool: str) -> str | None:
        """Returns the key of the agent that a tool asks, or None for other tools."""
        if not tool.startswith(_ASK):
            return None
        if is_agent_key(key := tool.removeprefix(_ASK)):
            return key
        listed = await self.door.agents.visible_to(identity)
        return next((each.agent_key for each in listed if ask_name(each.agent_key) == tool), None)

    async def agents(self, identity: Identity) -> schemas.Agents:
        listed = await self.door.agents.visible_to(identity)
        return schemas.Agents(agents=[_listed(agent, number < _MOST_AGENTS) for number, agent in enumerate(listed)])

    async def knowledge_bases(self, caller: Principal) -> schemas.KnowledgeBases:
        page = await self._knowledge_bases(caller, 0)
        listed = [
            schemas.ListedKnowledgeBase(
                id=each.id,
                name=each.name,
                description=each.description,
                status=each.status,
                documents=each.datasource_count,
            )
            for each in page.knowledge_bases
        ]
        return schemas.KnowledgeBases(knowledge_bases=listed, total=page.total)

    async def search(self, caller: Principal, wanted: schemas.SearchKnowledge) -> schemas.Passages:
        """Searches a knowledge base. Raises ``Conflict`` if several knowledge bases have the given name."""
        base_id = await self._knowledge_base_id(caller, wanted.knowledge_base)
        body = orjson.dumps({"query": wanted.query, "top_k": wanted.top_k})
        path = f"/internal/knowledge-bases/{base_id}/search"
        found = SearchReply.model_validate_json(await self.door.owners.ask(caller, "ingestion", path, body))
        return schemas.Passages(knowledge_base_id=base_id, query=wanted.query, results=found.results)

    async def conversation(self, identity: Identity, session_id: str) -> schemas.Conversation:
        sessions = self.door.sessions
        session = await sessions.read(identity, session_id)
        page = await sessions.last_messages(identity, session.session_id, _MOST_MESSAGES)
        return schemas.Conversation(
            session_id=session.session_id,
            agent=agent_name(session),
            status=session.status,
            created_at=session.created_at,
            # Leaves out messages without text, which are tool calls in an imported history.
            messages=[
                schemas.SaidMessage.model_validate(each, from_attributes=True) for each in page.messages if each.content
            ],
            omitted=page.total - len(page.messages),
            required_actions=list(await sessions.open_actions(identity, session.session_id)),
        )

    async def _knowledge_base_id(self, caller: Principal, named: str) -> str:
        if is_id(named):
            return named
        found: list[KnowledgeBase] = []
        offset, has_more = 0, True
        while has_more:
            page = await self._knowledge_bases(caller, offset)
            found += [each for each in page.knowledge_bases if each.name == named]
            offset, has_more = offset + _PAGE, page.has_more
        if not found:
            raise NotFound(
                "No knowledge base has this ID or name. Call list_knowledge_bases to see the available knowledge bases."
            )
        if len(found) > 1:
            ids = ", ".join(each.id for each in found)
            raise Conflict(f"Several knowledge bases have this name. Use one of these IDs: {ids}.")
        return found[0].id

    async def _knowledge_bases(self, caller: Principal, offset: int) -> KnowledgeBasePage:
        params = {"limit": _PAGE, "offset": offset}
        return await self.door.owners.read(KnowledgeBasePage, caller, "ingestion", "/internal/knowledge-bases", params)


def agent_name(session: Session) -> str:
    return str(session.agent_config.get("name", ""))


def _listed(agent: Agent, has_tool: bool) -> schemas.ListedAgent:
    return schemas.ListedAgent(
        agent_key=agent.agent_key,
        name=agent.name,
        agent_type=agent.architecture,
        tools=agent.system_config.get("tools", []),
        tool=ask_name(agent.agent_key) if has_tool else None,
    )
