"""The same furniture in the same rooms of every service."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from libs import eventing
from libs.service_defaults import RELEASE

ROOT = Path(__file__).parents[2]
SERVICES = ("gateway", "registry", "runtime", "ingestion", "artifacts", "timeline")
ROOMS = {"adapters", "domain", "entrypoints", "migrations", "use_cases"}
FILES = {"__init__", "__main__", "bootstrap", "settings"}
# Beside these, ingestion is a Faust application, the gateway and the runtime are administered by the command line, and
# the gateway has a package for each protocol of other clients.
ENTRYPOINTS = {"__init__", "events", "maintenance", "resources"}
ROOMS_OF_THE_GATEWAY = {"door", "rest", "web", "a2a", "ag_ui", "mcp", "openai"}
OF_ONE_SERVICE = {
    "ingestion": {"streams", "watchdog"},
    "gateway": {"administration", "credentials", "public_api", *ROOMS_OF_THE_GATEWAY},
    "runtime": {"administration"},
    "timeline": {"log"},
}


def assigned(file: Path, *names: str) -> list[str | None]:
    """The constants that the module assigns to these names."""
    found = {
        target.id: node.value.value
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [found[name] for name in names]


def names_in(folder: Path) -> set[str]:
    found = {entry.stem if entry.suffix == ".py" else entry.name for entry in folder.iterdir()}
    return {name for name in found if name != "__pycache__" and not name.endswith(".md")}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_the_rooms_that_every_service_has(service: str) -> None:
    home = ROOT / "services" / service
    own = OF_ONE_SERVICE.get(service, set())
    assert names_in(home) - own <= ROOMS | FILES
    assert names_in(home / "entrypoints") - own <= ENTRYPOINTS


@pytest.mark.parametrize("service", SERVICES)
def test_a_use_case_is_a_function_or_called_like_one_and_has_no_other_public_method(service: str) -> None:
    """Others are nouns whose methods are their verbs: their file has the name of the class, or they have a package."""
    for file in sorted((ROOT / "services" / service / "use_cases").glob("[!_]*.py")):
        body = ast.parse(file.read_text()).body
        classes = [node for node in body if isinstance(node, ast.ClassDef)]
        functions = [each for each in body if isinstance(each, ast.AsyncFunctionDef) and each.name[0] != "_"]
        use_cases = [each for each in classes if "__call__" in methods(each)]
        assert use_cases or functions or any(snake_case(each.name).endswith(file.stem) for each in classes), file
        for each in use_cases:
            assert not {name for name in methods(each) if not name.startswith("_")}, f"{file.name}: {each.name}"


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def methods(node: ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("service", SERVICES)
def test_the_migrations_of_a_service_form_one_chain(service: str) -> None:
    """Two with one number, which two branches can add without a conflict, would keep the service from starting."""
    versions = sorted((ROOT / "services" / service / "migrations" / "versions").glob("*.py"))
    revisions = [assigned(file, "revision", "down_revision") for file in versions]
    assert [file.name.partition("_")[0] for file in versions] == [own for own, _ in revisions]
    assert [before for _, before in revisions] == [None, *(own for own, _ in revisions[:-1])]


def test_processes_tell_the_release_of_the_project() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == RELEASE


def private_modules(file: Path) -> list[str]:
    """Private modules of libraries that the file imports, as ``eventing._relay``."""
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            found += [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            found += [each.name for each in node.names]
    return [name.removeprefix("libs.") for name in found if re.match(r"libs\.\w+(\.\w+)*\._", name)]


def test_a_library_is_used_by_its_public_modules() -> None:
    """Tests of a library's own room may look inside; of other libraries than the bus, every test may."""
    outside: list[str] = []
    for file in python_files("benchmarks", "cli", "deploy", "libs", "services", "tests", "tools"):
        path = file.relative_to(ROOT)
        for module in private_modules(file):
            library = module.partition(".")[0]
            is_own = path.parts[:2] == ("libs", library) or (path.parts[0] == "tests" and path.parts[2] == library)
            if not is_own and (path.parts[0] != "tests" or library == "eventing"):
                outside.append(f"{path}: {module}")
    assert outside == []


def test_the_library_of_the_bus_has_twenty_names() -> None:
    assert len(eventing.__all__) <= 20


def python_files(*folders: str) -> list[Path]:
    return [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]
