"""The Python client knows the whole API, has the contracts' models, and needs httpx and pydantic alone."""

import ast
import asyncio
import importlib.util
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import aes_client
import httpx
import pytest
from aes_client import AesError, AsyncClient, Client, RetryPolicy, models
from aes_client.resource import Method, Resource

from libs.contracts.errors import ErrorKind
from services.gateway.entrypoints.rest.application import openapi_document
from tools.reference.references import resolved

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "python"
KEY = "the caller's"
NAMES = r"\{\w+\}"
# A link that the service makes is followed by any HTTP client.
NOT_FOR_CLIENTS = {"GET /artifacts/{}/content/"}


def test_its_generated_modules_are_those_of_the_document() -> None:
    specification = importlib.util.spec_from_file_location("generate_client", CLIENT / "generate.py")
    generator = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(generator)
    for name, made in generator.sources(openapi_document()).items():
        assert (CLIENT / "aes_client" / f"{name}.py").read_text() == made, "run: python clients/python/generate.py"


def test_every_schema_of_the_api_is_known() -> None:
    schemas = openapi_document()["components"]["schemas"]
    wrappers = {"ErrorBody", "IngestBody", "TurnStreamEvent"}
    pages = {name for name in schemas if name.endswith("Page")}
    assert [name for name in schemas.keys() - wrappers - pages if not hasattr(models, name)] == []


def test_every_error_of_the_service_has_a_class_that_the_package_offers() -> None:
    made = {each.type: each for each in aes_client.ApiError.__subclasses__()}
    assert made.keys() == {each.value for each in ErrorKind}
    assert {each.__name__ for each in made.values()} <= {*aes_client.__all__}


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_every_operation_of_the_api_can_be_called(kind: type[Client | AsyncClient]) -> None:
    paths = openapi_document()["paths"].items()
    operations = (f"{method.upper()} {path}" for path, methods in paths for method in methods)
    public = {re.sub(NAMES, "{}", each.replace("/api/v1", "", 1)) for each in operations}
    assert called_by(kind).keys() == public - NOT_FOR_CLIENTS


def test_every_write_that_takes_an_idempotency_key_lets_the_caller_choose_it() -> None:
    document = openapi_document()
    taking = {
        f"{method.upper()} {re.sub(NAMES, '{}', path.replace('/api/v1', '', 1))}"
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if any(resolved(each, document)["name"] == "Idempotency-Key" for each in operation["parameters"])
    }
    assert {operation for operation, keys in called_by(Client).items() if keys == {KEY}} == taking


def called_by(kind: type[Client | AsyncClient]) -> dict[str, set[str | None]]:
    """The idempotency keys of what every operation of the client sends first, by method and path."""
    seen: dict[str, set[str | None]] = {}

    def note(request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        operation = f"{request.method} {re.sub(r'(?<=/)[xX](?=/)', '{}', path)}"
        seen.setdefault(operation, set()).add(request.headers.get("idempotency-key"))
        return httpx.Response(418)

    http: Any = (httpx.Client if kind is Client else httpx.AsyncClient)(transport=httpx.MockTransport(note))
    client = kind("http://service", "key", retries=RetryPolicy(retries=0), http=http)
    for resource in resources(client):
        for name, _ in inspect.getmembers(type(resource), lambda each: isinstance(each, Method)):
            if name != "request":
                call(getattr(resource, name))
    return seen


def resources(client: Client | AsyncClient) -> Iterator[Resource[Any]]:
    session = client.session("x")
    yield from (client, session, session.artifacts, session.turn("x"))
    yield from (each for each in vars(client).values() if isinstance(each, Resource))


def call(method: Any) -> None:
    wanted = {"file": b"x", "toolset": {}, "config": {}, "file_ids": [], "paths": [], "path": "/tmp/x", "content": "x"}
    action = models.OpenAction.model_construct(session_id="x", turn_id="x", action_id="x")
    arguments = {
        name: wanted.get(name, action if name == "action" else "x")
        for name, parameter in inspect.signature(method).parameters.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    }
    if "idempotency_key" in inspect.signature(method).parameters:
        arguments["idempotency_key"] = KEY
    if "file" in arguments:
        arguments["name"] = "x.md"
    try:
        answer = method(**arguments)
        if inspect.isgenerator(answer):
            next(answer, None)
        if inspect.isasyncgen(answer):
            answer = anext(answer, None)
        if inspect.isawaitable(answer):
            asyncio.run(finished(answer))
    except AesError:
        return


async def finished(answer: Awaitable[Any]) -> Any:
    return await answer


def test_it_needs_httpx_and_pydantic_alone() -> None:
    declared = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [re.match(r"\w+", each)[0] for each in declared] == ["httpx", "pydantic"]
    allowed = {"aes_client", "httpx", "pydantic", *sys.stdlib_module_names}
    for file in sorted((CLIENT / "aes_client").rglob("*.py")):
        for top, for_types in imports(ast.parse(file.read_text())):
            # pydantic has this one anyway; it is imported for the type checker alone.
            assert top in allowed or (top == "typing_extensions" and for_types), f"{file}: {top}"


def imports(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Top-level packages, each with whether it is imported under ``TYPE_CHECKING`` only."""
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        yield from ((name.split(".")[0], id(node) in for_types) for name in names)


def test_its_syntax_is_that_of_python_3_10() -> None:
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text())
    assert project["project"]["requires-python"] == ">=3.10"
    for file in sorted((CLIENT / "aes_client").rglob("*.py")):
        ast.parse(file.read_text(), feature_version=(3, 10))
    found = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F,UP", "--target-version", "py310", "."],
        cwd=CLIENT / "aes_client",
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout


def test_its_packages_and_its_marker_of_types_are_declared() -> None:
    setuptools = tomllib.loads((CLIENT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {each.parent for each in (CLIENT / "aes_client").rglob("__init__.py")}
    assert set(setuptools["packages"]) == {".".join(each.relative_to(CLIENT).parts) for each in folders}
    assert (CLIENT / "aes_client" / "py.typed").exists()
    assert setuptools["package-data"] == {"aes_client": ["py.typed"]}


def test_annotations_of_answers_can_be_resolved() -> None:
    for model in (each for each in vars(models).values() if inspect.isclass(each) and issubclass(each, models.Model)):
        assert get_type_hints(model) is not None
