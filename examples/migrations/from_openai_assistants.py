"""Moves assistants, threads, vector stores and files of OpenAI's Assistants API to the service.

    AES_API_KEY=… python examples/migrations/from_openai_assistants.py http://127.0.0.1:8080 \
        examples/migrations/openai-assistants.json --files examples/migrations/openai-files

docs/how-to/migrating/from-openai-assistants.md explains how to create the export.
"""

import argparse
from pathlib import Path
from typing import Any

from destination import Destination, Json, provider_model, run, text_or_blocks


def move(exported: Json, to: Destination, options: argparse.Namespace) -> None:
    files = move_files(exported.get("files", []), to, options.files)
    bases = {
        store["id"]: to.knowledge_base(store["id"], store["name"] or store["id"], files_of(store, files, to))
        for store in exported.get("vector_stores", [])
    }
    agents: dict[str, tuple[str, Json]] = {}
    for assistant in exported["assistants"]:
        configuration = configuration_of(assistant, bases, to, options.model)
        agents[assistant["id"]] = to.agent(assistant["id"], configuration), configuration
    for thread in exported.get("threads", []):
        move_thread(thread, agents, bases, to)


def move_files(files: list[Json], to: Destination, directory: Path | None) -> dict[str, str]:
    moved = {}
    for file in files:
        path = None if directory is None else directory / Path(file["filename"]).name
        if path is None or not path.exists():
            to.say(
                f"File {file['id']}: not moved, because OpenAI doesn't return assistants' files."
                f" To move it, put {file['filename']} in the directory given with --files."
            )
            continue
        moved[file["id"]] = to.file(file["id"], path.name, path.read_bytes())
    return moved


def files_of(store: Json, files: dict[str, str], to: Destination) -> list[str]:
    missing = [each["id"] for each in store["files"] if each["id"] not in files]
    if missing:
        to.say(f"Vector store {store['id']}: skipped files that weren't moved: {', '.join(missing)}.")
    return [files[each["id"]] for each in store["files"] if each["id"] in files]


def configuration_of(assistant: Json, bases: dict[str, str], to: Destination, model: str | None) -> Json:
    kinds = {tool["type"] for tool in assistant["tools"]}
    if "code_interpreter" in kinds:
        to.say(f"Assistant {assistant['id']}: code_interpreter has no equivalent, but table_query reads tables.")
    functions = [tool["function"] for tool in assistant["tools"] if tool["type"] == "function"]
    settings = {name: assistant[name] for name in ("temperature", "top_p") if assistant.get(name) is not None}
    # OpenAI accepts 0, which means the same as a value just above it.
    if settings.get("top_p") == 0:
        settings["top_p"] = 0.01
    configuration: Json = {
        "name": assistant.get("name") or assistant["id"],
        "agent_type": "react_agent" if functions else "llm_agent",
        "system_prompt": assistant.get("instructions") or "",
        "llm_config": {"model": model or provider_model(assistant["model"]), **settings},
        "knowledge_bases": knowledge_of(assistant, bases),
        "client_tools": [
            {
                "name": each["name"],
                "description": each.get("description") or "",
                "parameters": each.get("parameters") or {},
            }
            for each in functions
        ],
    }
    wanted = assistant.get("response_format")
    if isinstance(wanted, dict) and wanted["type"] == "json_schema":
        configuration["output_schema"] = wanted["json_schema"]["schema"]
    return configuration


def knowledge_of(owner: Json, bases: dict[str, str]) -> list[str]:
    search = (owner.get("tool_resources") or {}).get("file_search") or {}
    return [bases[each] for each in search.get("vector_store_ids") or () if each in bases]


def move_thread(thread: Json, agents: dict[str, tuple[str, Json]], bases: dict[str, str], to: Destination) -> None:
    messages = sorted(thread["messages"], key=lambda message: message["created_at"])
    spoke = [message["assistant_id"] for message in messages if message.get("assistant_id") in agents]
    if not (spoke or agents):
        to.say(f"Thread {thread['id']}: not moved, because the export doesn't contain any assistants.")
        return
    # A thread doesn't belong to an assistant, so the last one that replied continues it.
    agent_id, configuration = agents[spoke[-1] if spoke else next(iter(agents))]
    said = [{"role": each["role"], "content": content} for each in messages if (content := content_of(each, to))]
    own = knowledge_of(thread, bases)
    beginning: Json = {"agent_id": agent_id}
    if own:
        beginning = {**configuration, "knowledge_bases": [*configuration["knowledge_bases"], *own]}
    to.session(thread["id"], beginning, said)


def content_of(message: Json, to: Destination) -> Any:
    """Returns a message's text, or blocks if it contains images with HTTP URLs."""
    blocks: list[Json] = []
    for part in message["content"]:
        if part["type"] == "text":
            blocks.append({"type": "text", "text": part["text"]["value"]})
        elif part["type"] == "refusal":
            blocks.append({"type": "text", "text": part["refusal"]})
        elif part["type"] == "image_url" and message["role"] == "user":
            blocks.append({"type": "image_url", "image_url": {"url": part["image_url"]["url"]}})
        else:
            to.say(f"Message {message['id']}: skipped a part of type {part['type']}.")
    return text_or_blocks(blocks)


if __name__ == "__main__":
    run(__doc__, move)
