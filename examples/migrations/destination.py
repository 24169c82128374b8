"""The service that a migration moves into: whatever is moved is moved once.

A ledger beside the export says what became of each object, so that a second run moves only what is new. An idempotency
key made of the object's old id covers the moment between an answer and the ledger. Needs only Python.
"""

import argparse
import hashlib
import http.client
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

Json = dict[str, Any]
AGAIN = (429, 502, 503, 504)
LONGEST_OUTAGE_SECONDS = 300
# Of the body that opens a session: the service takes 512 KiB.
LARGEST_HISTORY = 480 * 1024
MOST_MESSAGES = 2_000


class Destination:
    """``say`` reports what has no equal here, and what was moved."""

    def __init__(self, base_url: str, api_key: str, ledger: Path, say: Callable[[str], None] = print) -> None:
        self._base_url = base_url.rstrip("/").removesuffix("/api/v1") + "/api/v1"
        self._api_key = api_key
        self._ledger = ledger
        self._entries: dict[str, str] = json.loads(ledger.read_text()) if ledger.exists() else {}
        self.say = say

    def agent(self, old_id: str, configuration: Json) -> str:
        return self._once("agent", old_id, "/agent/", configuration, "id")

    def session(self, old_id: str, beginning: Json, messages: Sequence[Json]) -> str:
        """Opens a session of an agent with the newest messages that fit into a request."""
        kept = newest(messages)
        if left_out := len(messages) - len(kept):
            self.say(f"session {old_id}: the {left_out} oldest messages are left out, it is too long")
        return self._once("session", old_id, "/sessions/", {**beginning, "messages": kept}, "session_id")

    def file(self, old_id: str, name: str, content: bytes) -> str:
        boundary = hashlib.sha256(content).hexdigest()
        quoted = name.replace("\\", "_").replace('"', "_")
        head = f'--{boundary}\r\ncontent-disposition: form-data; name="file"; filename="{quoted}"\r\n\r\n'
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        return self._once("file", old_id, "/files/", body, "id", kind=f"multipart/form-data; boundary={boundary}")

    def knowledge_base(self, old_id: str, name: str, file_ids: Sequence[str]) -> str:
        """A collection of these files, and a knowledge base of the collection; its ingestion begins at once."""
        collection = self._once("collection", old_id, "/collections/", {"name": name}, "id")
        if file_ids:
            place = f"/collections/{collection}/files/"
            self._once("collected files", old_id, place, {"file_ids": list(file_ids)}, "success")
        body = {"name": name, "collection_ids": [collection]}
        return self._once("knowledge base", old_id, "/knowledge-bases/", body, "id")

    def _once(
        self, what: str, old_id: str, path: str, body: Json | bytes, id_field: str, kind: str = "application/json"
    ) -> str:
        entry = f"{self._base_url} {what} {old_id}"
        if entry in self._entries:
            return self._entries[entry]
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        key = "move-" + hashlib.sha256(entry.encode()).hexdigest()
        new_id = str(self._post(path, content, key, kind)[id_field])
        self._entries[entry] = new_id
        written = self._ledger.with_suffix(".new")
        written.write_text(json.dumps(self._entries, indent=1, sort_keys=True))
        written.replace(self._ledger)
        self.say(f"moved {what} {old_id} -> {new_id}")
        return new_id

    def _post(self, path: str, content: bytes, key: str, kind: str) -> Json:
        headers = {"x-api-key": self._api_key, "content-type": kind, "idempotency-key": key}
        request = Request(self._base_url + path, content, headers)
        deadline = time.monotonic() + LONGEST_OUTAGE_SECONDS
        while True:
            try:
                with urlopen(request, timeout=60) as response:
                    answer: Json = json.load(response)
                    return answer
            except HTTPError as refusal:
                if refusal.code not in AGAIN or time.monotonic() > deadline:
                    raise SystemExit(f"{path}: {refusal}: {refusal.read().decode()}") from None
            except (URLError, http.client.HTTPException, OSError) as problem:
                if time.monotonic() > deadline:
                    raise SystemExit(f"{path}: {problem}") from None
            time.sleep(1)


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
    if not options.base_url.startswith(("http://", "https://")):
        parser.error(f"{options.base_url} is no address: it begins with http:// or https://")
    ledger = options.export.with_name(options.export.name + ".moved.json")
    exported = json.loads(options.export.read_text())
    # Some exports of Letta are the text of a document within a document.
    exported = json.loads(exported) if isinstance(exported, str) else exported
    destination = Destination(options.base_url, os.environ.get("AES_API_KEY", ""), ledger)
    move(exported, destination, options)
    print(f"done; {ledger} says what became of each object", file=sys.stderr)
