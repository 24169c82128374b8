"""Builds the agent card, which tells A2A clients how to reach an agent and which content it accepts."""

from typing import Any

from libs.contracts.resources.agents import Agent
from services.gateway.entrypoints.a2a.messages import INPUT_MODES, OUTPUT_MODES

PROTOCOL_VERSION = "1.0"


def card_of(agent: Agent, address: str) -> dict[str, Any]:
    """Returns an agent's card. Omits instructions and tools, since it can be public. ``address``: the agent's URL."""
    return {
        "name": agent.name,
        "description": f"The agent {agent.name}.",
        "version": agent.version_number,
        "supportedInterfaces": [
            {"url": address, "protocolBinding": binding, "protocolVersion": PROTOCOL_VERSION}
            for binding in ("JSONRPC", "HTTP+JSON")
        ],
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": False},
        "securitySchemes": {
            "apiKey": {"apiKeySecurityScheme": {"location": "header", "name": "x-api-key"}},
            "bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}},
        },
        "securityRequirements": [{"schemes": {"apiKey": {"list": []}}}, {"schemes": {"bearer": {"list": []}}}],
        "defaultInputModes": list(INPUT_MODES),
        "defaultOutputModes": list(OUTPUT_MODES),
        "skills": [
            {
                "id": agent.agent_key,
                "name": agent.name,
                "description": "Answers messages.",
                "tags": [agent.architecture],
            }
        ],
    }
