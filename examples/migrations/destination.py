"""The service that a migration moves into: whatever is moved is moved once.

A ledger beside the export says what became of each object, so that a second run moves only what is new. An idempotency
key made of the object's old id covers the moment between an answer and the ledger.
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
    sys.exit("error: the client of the service is missing: pip install ./clients/python")

Json = dict[str, Any]
# Of the body that opens a session: the service takes 512 KiB.
LARGEST_HISTORY = 480 * 1024
MOST_MESSAGES = 2_000


class Destination:
    def __init__(self, base_url: str, ledger: Path) -> None:
        self._base_url = base_url.rstrip("/").removesuffix("/api/v1") + "/api/v1"
        # An outage of some minutes does not end a migration.
        self._client = Client(base_url, retries=RetryPolicy(retries=50, first_contact=50))
        self._ledger = ledger
        self._entries: dict[str, str] = json.loads(ledger.read_text()) if ledger.exists() else {}

    def say(self, text: str) -> None:
        """Reports what has no equal here, and what was moved."""
        print(text)

    def agent(self, old_id: str, configuration: Json) -> str:
        return self._posted("agent", old_id, "/agent/", configuration)

    def session(self, old_id: str, beginning: Json, messages: Sequence[Json]) -> str:
        """Opens a session of an agent with the newest messages that fit into a request."""
        kept = newest(messages)
        if left_out := len(messages) - len(kept):
            self.say(f"session {old_id}: the {left_out} oldest messages are left out, it is too long")
        return self._posted("session", old_id, "/sessions/", {**beginning, "messages": kept}, "session_id")

    def file(self, old_id: str, name: str, content: bytes) -> str:
        upload = self._client.files.upload
        return self._once("file", old_id, lambda key: upload(content, name=name, idempotency_key=key).id)

    def knowledge_base(self, old_id: str, name: str, file_ids: Sequence[str]) -> str:
        """A collection of these files, and a knowledge base of the collection; its ingestion begins at once."""
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
            self.say(f"moved {what} {old_id} -> {self._entries[entry]}")
        return self._entries[entry]


def newest(messages: Sequence[Json]) -> list[Json]:
    """The end of a conversation, from a message of the user on, within the limits of a request."""
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
    """Leaves out tool calls without a result, and results of calls that nobody made: models refuse both."""
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
    """The content of a message: text alone, or blocks when there are others."""
    kept = [block for block in blocks if block["type"] != "text" or block["text"].strip()]
    if any(block["type"] != "text" for block in kept):
        return kept
    return "\n".join(block["text"] for block in kept)


def provider_model(name: str, default_provider: str = "openai") -> str:
    """A model as it is named here, ``provider:name``."""
    provider, slash, model = name.partition("/")
    if ":" in name.partition("/")[0]:
        return name
    return f"{provider}:{model}" if slash else f"{default_provider}:{name}"


def run(description: str, move: Callable[[Json, Destination, argparse.Namespace], None]) -> None:
    """The command line of a migration."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("base_url", help="address of the service, such as http://127.0.0.1:8080")
    parser.add_argument("export", type=Path, help="the file with what is moved")
    parser.add_argument("--files", type=Path, help="directory with the files that the export names")
    parser.add_argument("--model", help="model of all agents, in place of those that the export names")
    options = parser.parse_args()
    ledger = options.export.with_name(options.export.name + ".moved.json")
    exported = json.loads(options.export.read_text())
    # Some exports of Letta are the text of a document within a document.
    exported = json.loads(exported) if isinstance(exported, str) else exported
    try:
        move(exported, Destination(options.base_url, ledger), options)
    except AesError as error:
        sys.exit(f"error: {error}")
    print(f"done; {ledger} says what became of each object", file=sys.stderr)
