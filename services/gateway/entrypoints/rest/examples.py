"""Examples of request bodies, shown in the reference as JSON and as YAML."""

from typing import Any, Final

_CONVERSATION: Final[dict[str, Any]] = {
    "name": "Support",
    "agent_type": "llm_agent",
    "system_prompt": "Answer questions about our product, briefly and kindly.",
    "llm_config": {"model": "builtin:extractive", "temperature": 0.2},
}
_REASONING: Final[dict[str, Any]] = {
    "name": "Researcher",
    "agent_type": "react_agent",
    "system_prompt": "Work step by step, and use tools where they do better than you.",
    "llm_config": {"model": "builtin:extractive", "temperature": 0, "max_steps": 8},
    "tools": ["calculator", "current_time"],
}
CONFIGURATIONS: Final = {"conversation": _CONVERSATION, "reasoning with tools": _REASONING}
CHANGES: Final = {
    "other instructions": {"system_prompt": "Answer in one sentence."},
    "shared with the company": {"is_shared": True},
}
SESSIONS: Final = {
    "with a configuration": _CONVERSATION,
    "with a stored agent": {"agent_key": "support"},
    "with an imported conversation": {
        "agent_key": "support",
        "messages": [
            {"role": "user", "content": "Does the ferry to Vardo run today?"},
            {"role": "assistant", "content": "Yes, at 16:10 from the north quay."},
        ],
    },
}
FORKS: Final = {
    "the whole history": {},
    "up to a turn": {"up_to_turn_id": "01980f52-1b42-7c25-9d3e-2b3c4d5e6f06"},
    "before a turn": {"before_turn_id": "01980f52-1b42-7c25-9d3e-2b3c4d5e6f06"},
}
MESSAGES: Final = {
    "text": {"content": "What is 17 * 23?", "correlation_id": "order-4711"},
    "with options": {
        "content": "Which ferries leave today?",
        "options": {"instructions": "Answer in one sentence.", "temperature": 0, "stop": ["\n\n"]},
    },
    "blocks": {
        "content": [
            {"type": "text", "text": "What's in this picture?"},
            {"type": "image_url", "image_url": {"url": "https://example.com/picture.png"}},
        ]
    },
}
ACTION_ANSWERS: Final = {
    "approval": {"decision": "approve"},
    "denial": {"decision": "deny", "reason": "Refunds above 100 need a second opinion."},
    "result of a client tool": {"output": {"seat": "12A", "price": 49.5}},
    "failure of a client tool": {"error": "The printer is out of paper."},
}
TOOLSETS: Final[dict[str, Any]] = {
    "an MCP server": {
        "name": "tickets",
        "type": "mcp",
        "url": "https://tickets.example.com/mcp",
        "headers": {"Authorization": "Bearer ${secret:TICKETS_TOKEN}"},
    },
    "an OpenAPI document": {
        "name": "harbour",
        "type": "openapi",
        "document_url": "https://harbour.example.com/openapi.json",
        "operations": ["listBerths", "GET /ships/{id}"],
    },
    "HTTP requests": {
        "name": "fares",
        "type": "http",
        "tools": [
            {
                "name": "fare",
                "description": "The fare of a crossing.",
                "parameters": {
                    "type": "object",
                    "properties": {"crossing": {"type": "string"}, "cars": {"type": "integer"}},
                    "required": ["crossing"],
                },
                "method": "GET",
                "url": "https://fares.example.com/crossings/{crossing}",
                "query": {"cars": "{cars}"},
            }
        ],
    },
}
TOOLSET_CHANGES: Final[dict[str, Any]] = {
    "fewer tools": {"allowed_tools": ["find_tickets"]},
    "an approval": {"tool_settings": {"close_ticket": {"approval": "always"}}},
}
TOOL_CALLS: Final[dict[str, Any]] = {"arguments": {"arguments": {"crossing": "Kiel-Oslo", "cars": 1}}}
SECRETS: Final = {"a token": {"value": "the ticket office's token"}}
KEYS: Final = {
    "reader": {
        "name": "dashboard",
        "scopes": ["agents:read", "sessions:read"],
        "expires_at": "2031-01-31T00:00:00Z",
    }
}
ROTATION: Final = {"both secrets for an hour": {"grace_seconds": 3600}}
TOKENS: Final = {"to read artifacts": {"scopes": ["artifacts:read"], "expires_in": 900}}
CONNECTIONS: Final = {
    "help on a web site": {
        "name": "help widget",
        "agent_key": "support",
        "allowed_origins": ["https://www.example.com"],
        "quota": 120,
    }
}
_FILE: Final = "01980f4f-6f42-727a-9394-8192a3b4c5da"
_COLLECTION: Final = "01980f4f-7a53-738b-a4a5-92a3b4c5d6eb"
BULK: Final = {
    "other tags": {"operation": "update_tags", "file_ids": [_FILE], "parameters": {"tags": ["handbook"]}},
    "exclude from retrieval": {
        "operation": "change_status",
        "file_ids": [_FILE],
        "parameters": {"status": "inactive"},
    },
    "delete": {"operation": "delete", "file_ids": [_FILE]},
}
COLLECTIONS: Final = {"documents": {"name": "Handbooks", "description": "What customers ask about"}}
COLLECTION_CHANGES: Final = {"another name": {"name": "Manuals"}}
COLLECTION_FILES: Final = {"one file": {"file_ids": [_FILE]}}
KNOWLEDGE_BASES: Final[dict[str, Any]] = {
    "of a collection": {"name": "Handbooks", "collection_ids": [_COLLECTION]},
    "with settings": {
        "name": "Handbooks",
        "file_ids": [_FILE],
        "processing_engine": "pgvector",
        "chunking_strategy": {"strategy": "sentence", "chunk_size": 200, "chunk_overlap": 20, "split_by": "word"},
        "embedding_config": {"provider": "wordllama"},
    },
}
KNOWLEDGE_BASE_CHANGES: Final = {"another description": {"description": "Everything for customers"}}
SEARCHES: Final[dict[str, Any]] = {
    "hybrid": {"query": "How much is a ticket?"},
    "by words, in one collection": {
        "query": "ticket price",
        "mode": "keyword",
        "top_k": 3,
        "filters": {"collection_ids": [_COLLECTION]},
    },
}
