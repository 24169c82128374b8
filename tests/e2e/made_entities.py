"""One of everything that the API can create, made from the examples of the contracts."""

import re
from collections import defaultdict
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final, get_args

import httpx
from pydantic import BaseModel

from tests.e2e.api import configuration, unique
from tests.e2e.running_stack import RECEIVERS
from tests.support.declared_operations import OPERATIONS, Operation

BY_ID: Final = {str(each): each for each in OPERATIONS}
_READS: Final = {each.path for each in OPERATIONS if each.method == "GET"}
CREATIONS: Final = [
    each for each in OPERATIONS if each.route.status_code == 201 and each.method == "POST" and each.path in _READS
]
# What lists below an entity show: writes that are no creation, twice or more often.
_FILLING: Final = ("sessions.execute", "agents.update", "artifacts.upload", "collections.add_files", "webhooks.test")
_ORDER_STATUS: Final = {
    "name": "order_status",
    "description": "Looks up an order.",
    "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}},
}
_WAITING: Final = configuration("openai:stub-tool-client", client_tools=[_ORDER_STATUS])


@dataclass
class Entities:
    """Entities of one company. ``named``: IDs by names of fields and parameters; ``placed``: the last below a path."""

    client: httpx.Client
    named: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    placed: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    """The IDs of a turn that waits for an answer."""
    refusals: dict[str, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def make_all(self, times: int) -> None:
        for _ in range(times):
            left = list(CREATIONS)
            while left:
                refused = [each for each in left if not self.create(each)]
                assert len(refused) < len(left), f"{[*map(str, refused)]}: no example is taken: {self.refusals}"
                left = refused
            self.put_secret()
            self.wait_for_an_answer()
        for name in _FILLING * times:
            self.perform(BY_ID[name])

    def create(self, operation: Operation) -> bool:
        """Makes one by the first example that is taken."""
        if not all(self.value(operation, name) for name in operation.parameters):
            return False
        for body in self.bodies(operation):
            reply = self.send(operation, body)
            if reply.status_code == 201:
                self.learn(operation, reply)
                return True
            self.refusals[str(operation)] = reply.text
        return False

    def renewed(self, operation: Operation) -> "Entities":
        """These, with others for those that the operation is about."""
        entities = replace(self, named=deepcopy(self.named), placed=dict(self.placed))
        entities._renew(operation)
        return entities

    def _renew(self, operation: Operation) -> None:
        if "turn_id" in operation.parameters:
            self.wait_for_an_answer()
        elif operation.path.startswith("/secrets/"):
            self.put_secret()
        else:
            above = [each for each in CREATIONS if each.path != operation.path and operation.path.startswith(each.path)]
            for each in sorted(above, key=lambda each: len(each.path)):
                assert self.create(each), self.refusals[str(each)]
            for each in (BY_ID[name] for name in _FILLING):
                if each != operation and each.path.partition("}")[0] == operation.path.partition("}")[0]:
                    self.perform(each)

    def put_secret(self) -> None:
        self.placed["/secrets/"] = f"SECRET_{next(self._numbers)}"
        self.perform(BY_ID["secrets.put"])

    def perform(self, operation: Operation) -> httpx.Response:
        reply = self.send(operation, self.bodies(operation)[0])
        assert reply.status_code < 300, (str(operation), reply.text)
        self.learn(operation, reply)
        return reply

    def wait_for_an_answer(self) -> None:
        session = self.client.post("/sessions/", json=_WAITING).json()["session_id"]
        turn = self.client.post(f"/runtime/{session}/execute/", json={"content": unique("refund")}).json()
        action = turn["required_actions"][0]["action_id"]
        self.waiting = {"session_id": session, "turn_id": turn["turn_id"], "action_id": action}

    def send(self, operation: Operation, body: Any = None, **headers: str) -> httpx.Response:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.request(operation.method, self.path(operation), headers=sent, **content_of(body))

    def bodies(self, operation: Operation) -> list[Any]:
        """The examples, about entities and under names of this company."""
        if operation.body is None:
            return [None]
        return [self._renamed(self._filled(each)) for each in operation.examples] or [UPLOAD]

    def path(self, operation: Operation) -> str:
        values = {name: self.value(operation, name) for name in operation.parameters}
        assert all(values.values()), f"{operation}: nothing is known for {values}"
        return operation.at(**values)

    def value(self, operation: Operation, name: str) -> str:
        if "turn_id" in operation.parameters:
            return self.waiting.get(name, "")
        place = operation.path.partition(f"{{{name}}}")[0]
        return self.placed.get(place) or (self.named.get(name) or [""])[-1]

    def learn(self, operation: Operation, reply: httpx.Response) -> None:
        """Remembers what the answer names."""
        made = reply.json()
        if operation in CREATIONS:
            location = reply.headers.get("location", "").removeprefix("/api/v1")
            place, _, last = location.rstrip("/").rpartition("/")
            self.placed |= {operation.path: last or made["id"], f"{place}/": last or made["id"]}
        for model in _models(operation):
            if "id" in made and "id" in model.model_fields:
                self.named[f"{_snake(model.__name__)}_id"].append(made["id"])
        for name, value in made.items():
            if isinstance(value, str) and name.endswith(("_id", "_key")):
                self.named[name].append(value)
        if made.get("tools"):
            self.named["tool"].append(made["tools"][0]["name"])
        if "version_number" in made:
            self.named["version"].append(made["version_number"])

    def _filled(self, example: dict[str, Any]) -> dict[str, Any]:
        return {name: self._meant(name, value) for name, value in example.items()}

    def _meant(self, name: str, value: Any) -> Any:
        """For the IDs of an example, those of entities that exist."""
        known = [each for each in self.named if re.fullmatch(rf"(\w+_)?{each}s?", name) and "_" in each]
        if isinstance(value, dict):
            return self._filled(value)
        if not known:
            return value
        made = list(dict.fromkeys(self.named[max(known, key=len)]))
        return made if isinstance(value, list) else made[-1]

    def _renamed(self, body: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        changed = {"name": f"{body['name']}-{number}"} if "name" in body else {}
        # Hosts of examples can't be found.
        if "event_types" in body and "url" in body:
            changed["url"] = f"http://{RECEIVERS}:9/{number}"
        return {**body, **changed}


UPLOAD: Final = object()
"""A file, where a body is no JSON."""


def content_of(body: Any) -> dict[str, Any]:
    return {"files": {"file": ("fares.csv", b"port,price\nKirkwall,30\n")}} if body is UPLOAD else {"json": body}


def _models(operation: Operation) -> list[type[BaseModel]]:
    models = [each.get("model") for status, each in operation.route.responses.items() if int(status) < 300]
    flat = [each for model in models for each in (get_args(model) or (model,))]
    return [each for each in flat if isinstance(each, type) and issubclass(each, BaseModel)]


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
