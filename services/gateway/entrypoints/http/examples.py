"""Examples of request bodies, shown in the reference as JSON and as YAML."""

from typing import Any, Final

_CONVERSATION: Final[dict[str, Any]] = {
    "name": "Support",
    "agent_type": "llm_agent",
    "system_prompt": "You answer questions about our product, briefly and kindly.",
    "llm_config": {"model": "builtin:extractive", "temperature": 0.2},
}
_REASONING: Final[dict[str, Any]] = {
    "name": "Researcher",
    "agent_type": "react_agent",
    "system_prompt": "You work step by step and use tools for what they can do better than you.",
    "llm_config": {"model": "builtin:extractive", "temperature": 0, "max_steps": 8},
    "tools": ["calculator", "current_time"],
}
CONFIGURATIONS: Final = {"conversation": _CONVERSATION, "reasoning with tools": _REASONING}
CHANGES: Final = {
    "other instructions": {"system_prompt": "You answer in one sentence."},
    "shared with the company": {"is_shared": True},
}
SESSIONS: Final = {
    "with a configuration": _CONVERSATION,
    "with a stored agent": {"agent_key": "support"},
}
MESSAGES: Final = {
    "text": {"content": "What is 17 * 23?", "correlation_id": "order-4711"},
    "blocks": {
        "content": [
            {"type": "text", "text": "What is on this picture?"},
            {"type": "image_url", "image_url": {"url": "https://example.com/picture.png"}},
        ]
    },
}
KEYS: Final = {
    "reader": {
        "name": "dashboard",
        "scopes": ["agents:read", "sessions:read"],
        "expires_at": "2031-01-31T00:00:00Z",
    }
}
ROTATION: Final = {"an hour of both": {"grace_seconds": 3600}}
