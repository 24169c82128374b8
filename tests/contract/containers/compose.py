"""docker-compose.yml and the Dockerfile, read as Compose and Docker read them, without either."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from deploy.local.home import PROJECT_ROOT

OURS = "agent-execution-service/"
TEXT = (PROJECT_ROOT / "docker-compose.yml").read_text()
EXAMPLE = (PROJECT_ROOT / ".env.example").read_text()
Container = dict[str, Any]
_VARIABLE = re.compile(r"\$\$|\$\{(?P<name>\w+)(?::(?P<sign>[-?])(?P<word>[^}]*))?\}")


class VariableMissing(Exception):
    """One without which Compose refuses to do anything."""


def example() -> dict[str, str]:
    """Variables of .env.example."""
    return dict(line.split("=", 1) for line in EXAMPLE.splitlines() if re.match(r"\w+=", line))


def compose(variables: Mapping[str, str]) -> Container:
    """Raises VariableMissing."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        found = variables.get(match["name"], "")
        if not found and match["sign"] == "?":
            raise VariableMissing(match["name"])
        return found or (match["word"] or "")

    text = "\n".join(line for line in TEXT.splitlines() if not line.lstrip().startswith("#"))
    return yaml.safe_load(_VARIABLE.sub(value, text))


@cache
def containers() -> dict[str, Container]:
    """All containers by name, with what .env.example sets."""
    return compose(example())["services"]


def ours() -> dict[str, Container]:
    return {name: one for name, one in containers().items() if one["image"].startswith(OURS)}


def image_of(container: Container) -> str:
    """The part of our image's name that is the Dockerfile's target."""
    return str(container["image"].removeprefix(OURS).rpartition(":")[0])


def processes() -> dict[str, tuple[str, str]]:
    """Service and role of each container that goes on running."""
    return {
        name: (image_of(one), one["command"][0]) for name, one in ours().items() if one["restart"] == "unless-stopped"
    }


@dataclass(frozen=True)
class Stage:
    base: str
    instructions: tuple[tuple[str, str], ...]

    def all(self, name: str) -> list[str]:
        return [arguments for instruction, arguments in self.instructions if instruction == name]


@cache
def stages() -> dict[str, Stage]:
    """The stages of the Dockerfile by name, with what they take over from stages that they build on."""
    text = re.sub(r"^#.*\n", "", (PROJECT_ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found: dict[str, Stage] = {}
    base, name, instructions = "", "", []
    for line in [*filter(None, text.splitlines()), "FROM end AS end"]:
        instruction, _, arguments = line.strip().partition(" ")
        if instruction == "FROM":
            if name:
                inherited = found[base].instructions if base in found else ()
                found[name] = Stage(base, (*inherited, *instructions))
            base, _, name = arguments.partition(" AS ")
            instructions = []
        else:
            instructions.append((instruction, re.sub(r"\s+", " ", arguments.strip())))
    return found
