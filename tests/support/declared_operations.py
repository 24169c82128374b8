"""The operations of the public API, as their routes declare them. A new operation needs no line here."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import jsonschema_rs
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter

from services.gateway.entrypoints.door.callers import by_api_key, by_api_key_or_public_key
from services.gateway.entrypoints.door.queries import QueryModel
from services.gateway.entrypoints.door.routes import PREFIX, RequestBody, bodies_of
from services.gateway.entrypoints.rest.application import ROUTERS

_JSON: Final = "application/json"


@dataclass(frozen=True)
class Operation:
    route: APIRoute

    def __str__(self) -> str:
        return str(self.route.operation_id)

    @property
    def method(self) -> str:
        [method] = (self.route.methods or set()) - {"HEAD"}
        return method

    @property
    def path(self) -> str:
        """Below the API's prefix, with the names of its parameters in braces."""
        return self.route.path_format.removeprefix(PREFIX)

    @property
    def resource(self) -> str:
        return str(self).partition(".")[0]

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.path)

    @property
    def dependencies(self) -> list[Any]:
        """The functions that are called before the operation, in order."""
        return [each.call for each in _tree(self.route.dependant)]

    @property
    def callers(self) -> list[list[str]]:
        """The scopes of each dependency that finds a caller."""
        found = self.route.dependant.dependencies
        return [list(each.own_oauth_scopes or ()) for each in found if each.call in _BY_CREDENTIAL]

    @property
    def scopes(self) -> list[str]:
        return [scope for scopes in self.callers for scope in scopes]

    @property
    def takes_public_keys(self) -> bool:
        return by_api_key_or_public_key in self.dependencies

    @property
    def is_repeatable(self) -> bool:
        """Whether it takes an ``Idempotency-Key``."""
        headers = (header for each in _tree(self.route.dependant) for header in each.header_params)
        return any(header.alias == "Idempotency-Key" for header in headers)

    @property
    def body(self) -> RequestBody | None:
        return next(bodies_of(self.route), None)

    @cached_property
    def examples(self) -> list[Any]:
        """Valid JSON bodies."""
        content = {} if self.body is None else self.body.request_body["content"]
        return [each["value"] for each in content.get(_JSON, {}).get("examples", {}).values()]

    @property
    def example_fields(self) -> set[str]:
        return {name for example in self.examples for name in example}

    @cached_property
    def body_schema(self) -> dict[str, Any]:
        model = None if self.body is None else self.body.body_schema
        assert model is not None, f"{self} has no schema for its body"
        return model.json_schema() if isinstance(model, TypeAdapter) else model.model_json_schema()

    @cached_property
    def _validator(self) -> Any:
        return jsonschema_rs.validator_for(self.body_schema)

    def documents(self, body: Any) -> bool:
        """Whether the body is valid by its schema."""
        return bool(self._validator.is_valid(body))

    @property
    def query(self) -> type[QueryModel] | None:
        kinds = [each.field_info.annotation for each in self.route.dependant.query_params]
        return next((each for each in kinds if isinstance(each, type) and issubclass(each, QueryModel)), None)

    @property
    def filters(self) -> dict[str, Any]:
        """The fields of the query by the names of its parameters."""
        return (
            {} if self.query is None else {each.alias or name: each for name, each in self.query.model_fields.items()}
        )

    @property
    def is_list(self) -> bool:
        """Whether it answers a page of entities."""
        return self.method == "GET" and "limit" in self.filters

    @property
    def answer(self) -> type[BaseModel] | None:
        """The model of its successful answer, if that is a single one."""
        models = [each.get("model") for status, each in self.route.responses.items() if int(status) < 300]
        return next((each for each in models if isinstance(each, type) and issubclass(each, BaseModel)), None)

    def at(self, **values: str) -> str:
        """The path of one entity."""
        return self.path.format(**values)


def _tree(dependant: Dependant) -> Iterator[Dependant]:
    for each in dependant.dependencies:
        yield from _tree(each)
    yield dependant


_BY_CREDENTIAL: Final = (by_api_key, by_api_key_or_public_key)
OPERATIONS: Final = [
    Operation(route)
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute) and route.include_in_schema
]
