"""A migration's destination: the service. Each object is created only once.

A ledger next to the export records the new ID of each object, so a second run moves only new objects. Idempotency keys
are derived from old IDs, in case the program stops before it records an object.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

try:
    from aes_client import AesError, Client, RetryPolicy
except ModuleNotFoundError:
    sys.exit("Error: the package aes-client is missing. Install it with: pip install ./clients/python")

Json = dict[str, Any]
# The service accepts up to 512 KiB in the body that creates a session.
LARGEST_HISTORY = 480 * 1024
MOST_MESSAGES = 2_000


class Destination:
    def __init__(self, base_url: str, ledger: Path) -> None:
        self._base_url = base_url.rstrip("/").removesuffix("/api/v1") + "/api/v1"
        # Allows for an outage of several minutes.
        self._client = Client(base_url, retries=RetryPolicy(retries=50, first_contact=50))
        self._ledger = ledger
        self._entries: dict[str, str] = json.loads(ledger.read_text()) if ledger.exists() else {}

    def say(self, text: str) -> None:
        print(text)

    def agent(self, old_id: str, configuration: Json) -> str:
        return self._posted("agent", old_id, "/agent/", configuration)

    def session(self, old_id: str, beginning: Json, messages: Sequence[Json]) -> str:
        """Creates a session with as many of the newest messages as fit into a request."""
        kept = newest(messages)
        if left_out := len(messages) - len(kept):
            self.say(f"Session {old_id}: skipped the oldest messages ({left_out}), because the session is too long.")
        return self._posted("session", old_id, "/sessions/", {**beginning, "messages": kept}, "session_id")

    def file(self, old_id: str, name: str, content: bytes) -> str:
        upload = self._client.files.upload
        return self._once("file", old_id, lambda key: upload(content, name=name, idempotency_key=key).id)

    def knowledge_base(self, old_id: str, name: str, file_ids: Sequence[str]) -> str:
        """Creates a knowledge base from a new collection of the files. Ingestion starts immediately."""
        collection = self._posted("collection", old_id, "/collections/", {"name": name})
        if file_ids:
            place = f"/collections/{collection}/files/"
            self._posted("collected files", old_id, place, {"file_ids": list(file_ids)}, "success")
        body = {"name": name, "collection_ids": [collection]}
        return self._posted("knowledge base", old_id, "/knowledge-bases/", body)

    def _posted(self, what: str, old_id: str, path: str, body: Json, id_field: str = "id") -> str:
        post = self._client.request
        return self._once(what, old_id, lambda key: post("POST", path, body=body, idempotency_key=key)[id_field])

    def _once(self, what: str, old_id: str, send: Callable[[str], Any]) -> str:
        entry = f"{self._base_url} {what} {old_id}"
        if entry not in self._entries:
            self._entries[entry] = str(send("move-" + hashlib.sha256(entry.encode()).hexdigest()))
            written = self._ledger.with_suffix(".new")
            written.write_text(json.dumps(self._entries, indent=1, sort_keys=True))
            written.replace(self._ledger)
            self.say(f"Moved {what} {old_id} to {self._entries[entry]}")
        return self._entries[entry]


def newest(messages: Sequence[Json]) -> list[Json]:
    """Returns the newest messages that fit into a request. The first one is a user message."""
    size, first = 0, len(messages)
    while first > max(0, len(messages) - MOST_MESSAGES):
        size += len(json.dumps(messages[first - 1]))
        if size > LARGEST_HISTORY:
            break
        first -= 1
    while 0 < first < len(messages) and messages[first]["role"] != "user":
        first += 1
    return list(messages[first:])


def answered(messages: Sequence[Json]) -> list[Json]:
    """Removes tool calls without a result and results without a call, which models reject."""
    results = {message["tool_call_id"] for message in messages if message["role"] == "tool"}
    called: set[str] = set()
    kept: list[Json] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] in called:
                called.remove(message["tool_call_id"])
                kept.append(message)
            continue
        calls = [call for call in message.get("tool_calls", ()) if call["id"] in results]
        called |= {call["id"] for call in calls}
        if calls or message["content"]:
            spoken = {name: value for name, value in message.items() if name != "tool_calls"}
            kept.append({**spoken, "tool_calls": calls} if calls else spoken)
    return kept


def text_or_blocks(blocks: Sequence[Json]) -> str | list[Json]:
    """Returns a single text if all blocks are text, otherwise the blocks."""
    kept = [block for block in blocks if block["type"] != "text" or block["text"].strip()]
    if any(block["type"] != "text" for block in kept):
        return kept
    return "\n".join(block["text"] for block in kept)


def provider_model(name: str) -> str:
    """Returns the model's name in the form ``provider:name``."""
    provider, slash, model = name.partition("/")
    if ":" in provider:
        return name
    return f"{provider}:{model}" if slash else f"openai:{name}"


def run(description: str, move: Callable[[Json, Destination, argparse.Namespace], None]) -> None:
    """Runs a migration from the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("base_url", help="address of the service, such as http://127.0.0.1:8080")
    parser.add_argument("export", type=Path, help="export file")
    parser.add_argument("--files", type=Path, help="directory with the export's files")
    parser.add_argument("--model", help="model for all agents, instead of the export's models")
    options = parser.parse_args()
    ledger = options.export.with_name(options.export.name + ".moved.json")
    exported = json.loads(options.export.read_text())
    # Some of Letta's exports contain the document as a JSON string.
    exported = json.loads(exported) if isinstance(exported, str) else exported
    try:
        move(exported, Destination(options.base_url, ledger), options)
    except AesError as error:
        sys.exit(f"Error: {error}")
    print(f"Done. {ledger} lists the new ID of each object.", file=sys.stderr)
