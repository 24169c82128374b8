"""Moves the assistants and threads of a LangGraph server to the service.

    AES_API_KEY=… python examples/migrations/from_langgraph.py http://127.0.0.1:8080 \
        examples/migrations/langgraph-threads.json

docs/how-to/migrating/from-langgraph.md explains how to create the export.
"""

import argparse
import json
from typing import Any

from destination import Destination, Json, answered, provider_model, run, text_or_blocks

ROLES = {"human": "user", "user": "user", "ai": "assistant", "assistant": "assistant", "tool": "tool"}
PROMPTS = ("system_prompt", "system_message", "instructions", "prompt")
MODELS = ("model", "model_name", "llm")


def move(exported: Json, to: Destination, options: argparse.Namespace) -> None:
    agents: dict[str, str] = {}
    for assistant in exported["assistants"]:
        new_id = to.agent(assistant["assistant_id"], configuration_of(assistant, to, options.model))
        agents[assistant["assistant_id"]] = new_id
        # If a thread references only its graph, the graph's first assistant continues the thread.
        agents.setdefault(assistant["graph_id"], new_id)
    for thread in exported.get("threads", []):
        move_thread(thread, agents, to)


def configuration_of(assistant: Json, to: Destination, model: str | None) -> Json:
    """Returns the agent's configuration for an assistant. Recognizes settings by their usual names."""
    given = {**(assistant.get("config") or {}).get("configurable", {}), **(assistant.get("context") or {})}
    prompt = next((given[name] for name in PROMPTS if isinstance(given.get(name), str)), "")
    named = next((given[name] for name in MODELS if isinstance(given.get(name), str)), None)
    if left_out := sorted(set(given) - {*PROMPTS, *MODELS, "temperature"}):
        to.say(f"Assistant {assistant['assistant_id']}: skipped settings: {', '.join(left_out)}.")
    to.say(
        f"Assistant {assistant['assistant_id']}: to move the code of graph {assistant['graph_id']},"
        " see docs/how-to/migrating/from-langgraph.md."
    )
    config: Json = {"model": model or (provider_model(named) if named else "builtin:extractive")}
    if isinstance(given.get("temperature"), int | float):
        config["temperature"] = given["temperature"]
    return {
        "name": assistant.get("name") or assistant["graph_id"],
        "agent_type": "react_agent",
        "system_prompt": prompt,
        "llm_config": config,
    }


def move_thread(thread: Json, agents: dict[str, str], to: Destination) -> None:
    old_id, metadata = thread["thread_id"], thread.get("metadata") or {}
    agent_id = agents.get(str(metadata.get("assistant_id"))) or agents.get(str(metadata.get("graph_id")))
    if agent_id is None:
        to.say(f"Thread {old_id}: not moved, because its assistant isn't in the export.")
        return
    values = thread.get("values") or {}
    state = values if isinstance(values, dict) else {"messages": values}
    if left_out := sorted(set(state) - {"messages"}):
        to.say(f"Thread {old_id}: skipped state: {', '.join(left_out)}.")
    if thread.get("interrupts"):
        to.say(f"Thread {old_id}: skipped pending interrupts.")
    said = [made for message in state.get("messages", []) if (made := message_of(message, old_id, to)) is not None]
    to.session(old_id, {"agent_id": agent_id}, answered(said))


def message_of(message: Json, old_id: str, to: Destination) -> Json | None:
    role = ROLES.get(message.get("type") or message.get("role") or "")
    if role is None:
        # Instructions belong to the agent. Other messages are internal to the graph.
        return None
    content = content_of(message.get("content"), old_id, to, images=role == "user")
    if role == "tool":
        return {"role": "tool", "tool_call_id": message["tool_call_id"], "content": content}
    calls = [
        {"id": call["id"], "name": call["name"], "arguments": call["args"]}
        for call in message.get("tool_calls") or ()
        if call.get("id")
    ]
    return {"role": role, "content": content, "tool_calls": calls}


def content_of(content: Any, old_id: str, to: Destination, *, images: bool) -> Any:
    """Returns a message's text, or blocks if it contains images with HTTP URLs."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else json.dumps(content)
    blocks: list[Json] = []
    for part in content:
        if isinstance(part, str) or part.get("type") == "text":
            blocks.append({"type": "text", "text": part if isinstance(part, str) else part["text"]})
        elif images and part.get("type") == "image_url" and address_of(part).startswith("http"):
            blocks.append({"type": "image_url", "image_url": {"url": address_of(part)}})
        elif part.get("type") != "tool_use":
            to.say(f"Thread {old_id}: skipped a part of type {part.get('type')}.")
    return text_or_blocks(blocks)


def address_of(part: Json) -> str:
    given = part["image_url"]
    return str(given["url"] if isinstance(given, dict) else given)


if __name__ == "__main__":
    run(__doc__, move)
