"""Moves agents from a Letta agent file (`.af`) to the service, with memory blocks, tools, sources and conversations.

    AES_API_KEY=… python examples/migrations/from_letta.py http://127.0.0.1:8080 examples/migrations/letta-agent.af

docs/how-to/migrating/from-letta.md explains how each part is converted.
"""

import argparse
import json
from typing import Any

from destination import Destination, Json, answered, provider_model, run

# Memory becomes part of the instructions, and the agent always sees the conversation.
BUILT_IN = {
    "letta_core",
    "letta_memory_core",
    "letta_multi_agent_core",
    "letta_sleeptime_core",
    "letta_voice_sleeptime_core",
    "letta_builtin",
    "letta_files_core",
}
SPEAKS = "send_message"


def move(exported: Json, to: Destination, options: argparse.Namespace) -> None:
    bases = move_sources(exported, to)
    tools = {tool["id"]: tool for tool in exported["tools"]}
    blocks = {block["id"]: block for block in exported["blocks"]}
    for group in exported.get("groups", []):
        to.say(f"Group {group['id']}: not moved. Instead, give one agent the others as tools over MCP.")
    revision = str(exported.get("metadata", {}).get("revision_id", ""))
    for agent in exported["agents"]:
        # Each agent file counts its IDs from 0.
        old_id = f"{agent['name']} {agent['id']} {exported.get('created_at')} {revision}"
        own_tools = [tools[each] for each in agent["tool_ids"] if each in tools]
        configuration: Json = {
            "name": agent["name"],
            "agent_type": "react_agent",
            "system_prompt": instructions_of(agent, [blocks[each] for each in agent["block_ids"] if each in blocks]),
            "llm_config": model_of(agent, options.model),
            "knowledge_bases": [bases[each] for each in agent.get("source_ids") or () if each in bases],
            "client_tools": [made for tool in own_tools if (made := client_tool(tool, to)) is not None],
        }
        agent_id = to.agent(old_id, configuration)
        to.session(old_id, {"agent_id": agent_id}, history_of(agent))


def move_sources(exported: Json, to: Destination) -> dict[str, str]:
    """Creates a knowledge base for each source. Returns the IDs by source ID."""
    moved: dict[str, list[str]] = {source["id"]: [] for source in exported["sources"]}
    for file in exported["files"]:
        if not file.get("content"):
            to.say(f"File {file['id']}: not moved, because the export doesn't contain the text of {file['file_name']}.")
            continue
        name = str(file["file_name"]).rpartition("/")[2]
        named = name if name.endswith((".txt", ".md")) else f"{name}.txt"
        new_id = to.file(f"{file['id']} {name}", named, file["content"].encode())
        moved.setdefault(file["source_id"], []).append(new_id)
    return {
        source["id"]: to.knowledge_base(f"{source['id']} {source['name']}", source["name"], moved[source["id"]])
        for source in exported["sources"]
    }


def instructions_of(agent: Json, blocks: list[Json]) -> str:
    """Returns the agent's system prompt, followed by its memory blocks in Letta's format."""
    shown = [
        f"<{block['label']}>\n{(block.get('description') or '').strip()}\n{block['value'].strip()}\n</{block['label']}>"
        for block in blocks
    ]
    return "\n\n".join([agent.get("system") or "", *shown]).strip()


def model_of(agent: Json, model: str | None) -> Json:
    config = agent.get("llm_config") or {}
    named = config.get("handle") or agent.get("model") or config.get("model") or "gpt-4o-mini"
    settings = {name: config[name] for name in ("temperature", "max_tokens") if config.get(name) is not None}
    return {"model": model or provider_model(named), **settings}


def client_tool(tool: Json, to: Destination) -> Json | None:
    if tool["tool_type"] in BUILT_IN:
        return None
    if tool["tool_type"] != "custom":
        to.say(
            f"Tool {tool['name']}: not moved. For type {tool['tool_type']}, create a toolset (docs/how-to/tools.md)."
        )
        return None
    schema = tool.get("json_schema") or {}
    to.say(f"Tool {tool['name']} is now a client tool. Run its code in your program.")
    return {
        "name": tool["name"],
        "description": tool.get("description") or "",
        "parameters": schema.get("parameters") or {},
    }


def history_of(agent: Json) -> list[Json]:
    """Returns the conversation without reasoning and heartbeats."""
    messages: list[Json] = []
    for message in sorted(agent["messages"], key=lambda each: each["created_at"]):
        match message["role"]:
            case "user":
                if text := said_by_user(text_of(message)):
                    messages.append({"role": "user", "content": text})
            case "assistant":
                messages.append(said_by_assistant(message))
            case "tool":
                messages += results_of(message)
    return answered(messages)


def said_by_assistant(message: Json) -> Json:
    calls, spoken = [], []
    for call in message.get("tool_calls") or ():
        arguments = arguments_of(call["function"]["arguments"])
        if call["function"]["name"] == SPEAKS:
            spoken.append(str(arguments.get("message", "")))
        else:
            calls.append({"id": call["id"], "name": call["function"]["name"], "arguments": arguments})
    # If an agent speaks through a tool, the text next to the call is its reasoning.
    return {
        "role": "assistant",
        "content": "\n".join(spoken) if spoken or calls else text_of(message),
        "tool_calls": calls,
    }


def results_of(message: Json) -> list[Json]:
    returns = message.get("tool_returns") or []
    if returns:
        return [
            {"role": "tool", "tool_call_id": each["tool_call_id"], "content": as_text(each.get("func_response"))}
            for each in returns
            if each.get("tool_call_id")
        ]
    if message.get("tool_call_id") is None:
        return []
    return [{"role": "tool", "tool_call_id": message["tool_call_id"], "content": unpacked(text_of(message))}]


def said_by_user(text: str) -> str:
    """Returns a user message's text, or an empty string for Letta's own events.

    Older versions of Letta wrap both in JSON and send both as user messages.
    """
    wrapped = parsed(text)
    if not isinstance(wrapped, dict) or "type" not in wrapped:
        return text
    return str(wrapped.get("message", "")) if wrapped["type"] == "user_message" else ""


def unpacked(text: str) -> str:
    wrapped = parsed(text)
    return as_text(wrapped["message"]) if isinstance(wrapped, dict) and "message" in wrapped else text


def text_of(message: Json) -> str:
    content = message.get("content") or []
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def arguments_of(text: str) -> Json:
    found = parsed(text)
    return found if isinstance(found, dict) else {}


def parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


if __name__ == "__main__":
    run(__doc__, move)
