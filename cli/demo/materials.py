"""Agents and documents of `examples/` that the demo uses."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cli.demo.script import AGENTS, BROKEN, CASHIER, CLERK, DOCUMENTS, HANDED_OVER, Part
from deploy.local.errors import StackError
from deploy.local.home import PROJECT_ROOT


@dataclass(frozen=True)
class Document:
    path: str
    content: bytes

    @property
    def name(self) -> str:
        return Path(self.path).name


@dataclass(frozen=True)
class Agent:
    """An example agent: `text` is its YAML file, `configuration` its content with the chosen model."""

    path: str
    text: str
    configuration: dict[str, Any]
    part: Part
    model_replaced: bool

    @property
    def model(self) -> str:
        return str(self.configuration.get("llm_config", {}).get("model", "builtin:extractive"))


@dataclass(frozen=True)
class Library:
    documents: list[Document]
    agents: list[Agent]
    clerk: Agent
    handed_over: list[Document | None]
    """The file attached to each message to the clerk."""
    cashier: Agent
    broken_path: str
    broken: str


def load(model: str | None) -> Library:
    """Raises StackError when an example is missing or unreadable."""
    return Library(
        documents=[Document(path, _bytes(path)) for path in DOCUMENTS],
        agents=[_agent(part, model) for part in AGENTS],
        clerk=_agent(CLERK, model),
        handed_over=[None if path is None else Document(path, _bytes(path)) for path in HANDED_OVER],
        cashier=_agent(CASHIER, model),
        broken_path=BROKEN,
        broken=_read(BROKEN),
    )


def _agent(part: Part, model: str | None) -> Agent:
    text = _read(part.agent)
    configuration = yaml.safe_load(text)
    if not isinstance(configuration, dict):
        raise StackError(f"{part.agent} holds no agent configuration.", "Restore the file from the repository.")
    if model is not None:
        configuration["llm_config"] = {**configuration.get("llm_config", {}), "model": model}
    return Agent(part.agent, text, configuration, part, model is not None)


def _read(path: str) -> str:
    return _bytes(path).decode()


def _bytes(path: str) -> bytes:
    try:
        return Path(PROJECT_ROOT, path).read_bytes()
    except OSError as problem:
        raise StackError(f"The example {path} cannot be read: {problem.strerror}.", "Restore it.") from problem
