"""Dependencies: licences, imports, and vendored files."""

import ast
import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

from web.assets import FOLDER, vendored

ROOT = Path(__file__).parents[2]
_PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, DEVELOPERS = _PYPROJECT["project"], _PYPROJECT["dependency-groups"]["dev"]
LOCKS = {
    file.stem: file.read_text()
    for file in (ROOT / "requirements.lock", ROOT / "requirements-dev.lock", *(ROOT / "deploy/images/locks").iterdir())
}
IMAGES = LOCKS.keys() - {"requirements", "requirements-dev"}
OURS = {"libs", "services", "web", "cli", "deploy", "tests", "benchmarks", "tools", "aes_client"}
# What a library brings along as part of its own interface.
BROUGHT_ALONG = {
    "a2a-sdk": {"protobuf"},
    "aiohttp": {"yarl"},
    "fastapi": {"starlette"},
    "minio": {"urllib3"},
    "psycopg": {"psycopg-pool"},
    "pydantic": {"pydantic-core", "typing-extensions"},
    "wordllama": {"tokenizers"},
}
# Modules of a library that do not import without another one, which the library does not bring along.
ON_REQUEST = {"uvicorn.protocols.websockets": "websockets", "uvicorn.protocols.http.httptools_impl": "httptools"}
HOLDERS = {
    "gateway": ["services/gateway", "libs/json_schema", "libs/secrets"],
    "registry": ["services/registry", "libs/json_schema"],
    "runtime": ["services/runtime", "libs/json_schema", "libs/outbound", "libs/documents"],
    "ingestion": ["services/ingestion", "libs/objects", "libs/documents"],
    "artifacts": ["services/artifacts", "libs/objects", "libs/documents"],
    "timeline": ["services/timeline", "libs/outbound", "libs/secrets"],
    "cli": ["cli", "clients/python/aes_client", "libs/secrets"],
    "local": ["deploy/local"],
}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def names(requirements: list[str]) -> set[str]:
    return {normal(re.match(r"[A-Za-z0-9._-]+", requirement)[0]) for requirement in requirements}


def declared(requirements: list[str]) -> set[str]:
    direct = names(requirements)
    return direct | {brought for name in direct for brought in BROUGHT_ALONG.get(name, ())}


def providers(requirement: str) -> set[str]:
    """The distributions that extras such as ``pydantic-ai-slim[groq]`` ask for."""
    name, _, extras = requirement.partition("[")
    wanted = extras.partition("]")[0].split(",") if extras else []
    found = requires(re.match(r"[A-Za-z0-9._-]+", name)[0]) or []
    return {
        normal(re.match(r"[A-Za-z0-9._-]+", line)[0])
        for line in found
        if any(f"extra == '{extra}'" in line.replace('"', "'") for extra in wanted)
    }


@cache
def imported(folder: Path) -> dict[str, str]:
    """Third-party packages imported below a folder, each with a file that does."""
    found: dict[str, str] = {}
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                modules = [node.module]
            for name in modules:
                top = name.split(".")[0]
                if top not in OURS and top not in sys.stdlib_module_names:
                    found.setdefault(top, str(file.relative_to(ROOT)))
    return found


@cache
def _distributions() -> Mapping[str, list[str]]:
    """The distributions that bring each package; a look at every file of the environment."""
    return packages_distributions()


def undeclared(folders: list[str], allowed: set[str]) -> list[str]:
    distributions = _distributions()
    return [
        f"{package} ({file})"
        for folder in folders
        for package, file in imported(ROOT / folder).items()
        if not {normal(name) for name in distributions.get(package, [package])} & allowed
    ]


@pytest.mark.parametrize("extra", HOLDERS)
def test_an_extra_declares_what_its_folders_import(extra: str) -> None:
    requirements = PROJECT["optional-dependencies"][extra]
    allowed = declared([*PROJECT["dependencies"], *requirements])
    for requirement in requirements:
        allowed |= providers(requirement)

    assert undeclared(HOLDERS[extra], allowed) == []


def test_the_shared_libraries_need_the_base_alone() -> None:
    folders = ["libs/blobs", "libs/contracts", "libs/eventing", "libs/persistence", "libs/service_defaults"]

    assert undeclared(folders, declared(PROJECT["dependencies"])) == []


def locked(*locks: str) -> set[str]:
    return {name for lock in locks for name, _ in pins(LOCKS[lock])}


def pins(lock: str) -> set[tuple[str, str]]:
    return {(normal(name), version) for name, version in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock, re.MULTILINE)}


def test_what_is_declared_is_locked_for_those_who_need_it() -> None:
    extras = PROJECT["optional-dependencies"]
    everything = [*PROJECT["dependencies"], *(requirement for extra in extras.values() for requirement in extra)]

    assert names(everything) <= locked("requirements")
    assert names(DEVELOPERS) <= locked("requirements", "requirements-dev")
    assert names(PROJECT["dependencies"]) <= locked("base")
    assert extras.keys() - {"local"} | {"base"} == IMAGES
    for image in IMAGES - {"base"}:
        assert names(extras[image]) <= locked("base", image)


def test_examples_need_what_users_install() -> None:
    own = {normal(file.stem) for file in (ROOT / "examples").rglob("*.py")}

    assert undeclared(["examples"], locked("requirements") | own) == []


@pytest.mark.parametrize("name", sorted(LOCKS))
def test_a_lock_has_pins_and_hashes_and_nothing_else(name: str) -> None:
    """The address of a registry would be that of whoever made the lock."""
    first, *lines = LOCKS[name].splitlines()
    entry = re.compile(r"[a-z0-9._-]+==\S+( ; [^\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")

    assert first == "# Made by python -m tools.lock."
    assert [line for line in lines if not entry.fullmatch(line)] == []
    assert pins(LOCKS[name])


def test_locks_have_the_same_versions_and_repeat_nothing_that_is_installed_with_them() -> None:
    assert not locked("requirements") & locked("requirements-dev")
    for image in IMAGES:
        assert pins(LOCKS[image]) <= pins(LOCKS["requirements"])
        assert image == "base" or not locked("base") & locked(image)


def test_every_image_has_what_its_web_server_is_told_to_use() -> None:
    modules = {
        node.module
        for file in (ROOT / "libs" / "service_defaults").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    needed = {other for part, other in ON_REQUEST.items() if any(module.startswith(part) for module in modules)}

    assert "websockets" in needed
    assert needed <= declared(PROJECT["dependencies"])


def test_the_javascript_clients_of_the_tests_are_locked_by_their_hashes_alone() -> None:
    """An address would be that of somebody's registry."""
    declared = json.loads((ROOT / "tests/support/javascript/package.json").read_text())
    lock = json.loads((ROOT / "tests/support/javascript/package-lock.json").read_text())
    assert lock["packages"].pop("")["dependencies"] == declared["dependencies"]
    assert all(each["integrity"] and "resolved" not in each for each in lock["packages"].values())


_ROOT = Path(__file__).parents[2]


def test_every_package_is_type_checked() -> None:
    places = [*_ROOT.glob("*/__init__.py"), *_ROOT.glob("clients/*/*/__init__.py")]
    packages = {place.parent.name for place in places} - {"tests"}
    checked = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["packages"]

    assert packages == set(checked)


VENDOR = FOLDER / "vendor"
FREE = {"MIT", "Apache-2.0"}


def test_every_vendored_file_is_the_one_of_the_manifest() -> None:
    known = {path: file["sha256"] for package in vendored() for path, file in package["files"].items()}
    there = {
        file.relative_to(VENDOR).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in VENDOR.rglob("*")
        if file.is_file() and file.name not in ("manifest.json", "README.md")
    }
    assert there == known


def test_every_package_has_a_version_and_comes_with_its_licence() -> None:
    for package in vendored():
        assert package["version"][0].isdigit()
        assert package["licence"] in FREE
        assert f"{package['name']}/LICENSE" in package["files"]


def test_modules_are_imported_by_the_names_of_the_manifest() -> None:
    files = {path for package in vendored() for path in package["files"]}
    assert {path for package in vendored() for path in package["imports"].values()} <= files
