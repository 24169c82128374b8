"""A public agent as the registry answers it, and a connection to it."""

from typing import Any

from libs.contracts.identifiers import new_id
from libs.contracts.identity import PUBLIC_SCOPES
from libs.contracts.resources.agents import Agent
from services.gateway.domain.connections import Connection, new_connection_key
from tests.support.gateway import Gateway

AGENT_ID = new_id()
SHOP = "https://shop.example"
ELSEWHERE = "https://elsewhere.example"


def stored_agent(**fields: Any) -> dict[str, Any]:
    agent = Agent(
        id=AGENT_ID,
        agent_key="support",
        name="Support",
        architecture="llm_agent",
        entry_point="",
        is_public=True,
        is_shared=False,
        origin_url=None,
        allowed_origins=[SHOP],
        owner="user-1",
        company="company-1",
        system_config={},
        version_number="1.0.0",
        config_hash="abc",
        created_at="2030-01-01T00:00:00.000000Z",
        updated_at="2030-01-01T00:00:00.000000Z",
    )
    return agent.model_copy(update=fields).model_dump()


async def connect(public: Gateway, **fields: Any) -> Connection:
    """A stored connection that pages of ``SHOP`` may use."""
    values: dict[str, Any] = {
        "id": new_id(),
        "company_id": "company-1",
        "user_id": "user-1",
        "name": "widget",
        "key": new_connection_key(),
        "agent_id": AGENT_ID,
        "agent_key": "support",
        "allowed_origins": (SHOP,),
        "scopes": PUBLIC_SCOPES,
        "quota": None,
        "created_at": public.clock.now(),
        "expires_at": None,
    }
    connection = Connection(**{**values, **fields})
    public.connections.stored[connection.id] = connection
    return connection


def open_to_the_public(public: Gateway, **fields: Any) -> None:
    """Let the registry know the agent by its key."""
    public.upstreams.answers["GET", "registry", "/internal/agents/public/support"] = (200, stored_agent(**fields))
