"""The demo's steps, which use the agents and documents in `examples/`."""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aes_client import ActionRequired, Client, SessionHandle, TimeLimitReached, TurnHandle
from aes_client.models import (
    Artifact,
    KnowledgeBase,
    RequiredAction,
    TimelineEventView,
    ValidationReport,
)
from aes_client.runners import SyncRunner
from rich.text import Text

from cli.demo.view import Screen, TurnView
from cli.installation import BusAddress
from cli.terminal import call_of, location_in
from deploy.local.errors import StackError
from deploy.local.home import PROJECT_ROOT
from libs.contracts.errors import dotted_path

BROKEN = "examples/agents/broken.yaml"
DOCUMENTS = (
    "examples/documents/skarholm-line-handbook.md",
    "examples/documents/skarholm-cafe.html",
    "examples/documents/skarholm-crossings-2025.csv",
)
_KNOWLEDGE_BASE, _SEARCH = "Skarholm Line", "dog on the ferry"
# The file attached to each message to the clerk. The last message has none and uses the earlier files.
_HANDED_OVER = ("examples/artifacts/skarholm-meeting-2026.docx", "examples/artifacts/skarholm-tickets-2025.xlsx", None)
# The demo submits this result for the cashier's client tool.
_FREE_SEATS = 118
_INGESTED_SECONDS, _PROCESSED_SECONDS, _TIMELINE_SECONDS = 300.0, 120.0, 15.0
_ENDS = frozenset({"turn.completed", "turn.failed", "turn.cancelled"})
_KINDS = {"rag_indexing": "indexed for search", "structural_parsing": "tables extracted", "vision": "image"}


@dataclass(frozen=True)
class Part:
    """An agent and the messages to send to the agent. ``agent`` is the path of the agent's file."""

    title: str
    agent: str
    questions: tuple[str, ...]


ASSISTANT = Part(
    "Chat with an llm_agent that answers from documents",
    "examples/agents/assistant.yaml",
    (
        "When was the Skarholm Line founded, and by whom?",
        "What is paid back when a crossing arrives late?",
        "And who is the harbour master?",
    ),
)
ANALYST = Part(
    "Use tools and search with a react_agent",
    "examples/agents/analyst.yaml",
    (
        "Two adults and two children take the car to Skarholm and back. What is 2 * (245 + 84 + 2 * 42)?",
        "What time is it in Oslo now?",
        "How many crossings were cancelled in November 2025?",
    ),
)
CLERK = Part(
    "Give an agent a document and a spreadsheet",
    "examples/agents/clerk.yaml",
    (
        "Who was elected chair, and with how many votes?",
        "Which route had the most passengers in July?",
        "What was the income per month? Save it as income-2025.xlsx.",
    ),
)
CASHIER = Part(
    "Approve a tool call, and run one in your own program",
    "examples/agents/cashier.yaml",
    ("What is 3 * 245, and how many free seats does crossing 4711 have?",),
)


@dataclass(frozen=True)
class Agent:
    """An example agent. `text` is its YAML file, and `configuration` the file's content with the selected model."""

    part: Part
    text: str
    configuration: dict[str, Any]
    model_replaced: bool

    @classmethod
    def load(cls, part: Part, model: str | None) -> "Agent":
        """Reads an agent's file. Raises StackError if the file is missing or invalid."""
        text = _content(part.agent).decode()
        configuration = yaml.safe_load(text)
        if not isinstance(configuration, dict):
            raise StackError(f"{part.agent} doesn't contain an agent.", "Restore the file from the repository.")
        if model is not None:
            configuration["llm_config"] = {**configuration.get("llm_config", {}), "model": model}
        return cls(part, text, configuration, model is not None)

    @property
    def model(self) -> str:
        return str(self.configuration.get("llm_config", {}).get("model", "builtin:extractive"))


@dataclass
class Talk:
    """A session of the demo and its conversation."""

    letter: str
    """The session's short name in the demo's output."""
    session: SessionHandle[SyncRunner]
    agent: Agent
    turns: list[dict[str, Any]] = field(default_factory=list)
    """The questions with their replies."""
    artifacts: list[str] = field(default_factory=list)
    """The IDs of uploaded files, then of generated files."""

    def as_json(self) -> dict[str, Any]:
        return {
            "session_id": self.session.session_id,
            "agent": self.agent.part.agent,
            "turns": self.turns,
            "artifacts": self.artifacts,
        }


def validate(screen: Screen, client: Client, agents: Sequence[Agent]) -> list[dict[str, Any]]:
    """Validates an invalid agent and the demo's agents. Returns the reports."""
    screen.heading(1, "Validate agents in YAML", "POST /api/v1/agent/validate/")
    broken = _content(BROKEN).decode()
    screen.line(BROKEN, "dim")
    screen.quote(_without_comments(broken))
    report = client.agents.validate(broken)
    reports = [_named(BROKEN, report)]
    _show_report(screen, report)
    for agent in agents:
        path = agent.part.agent
        screen.blank()
        screen.line(path, "dim")
        screen.quote(_without_comments(agent.text))
        report = client.agents.validate(agent.text)
        if agent.model_replaced:
            screen.line(f"with model {agent.model}", "cyan")
            report = client.agents.validate(agent.configuration)
        _show_report(screen, report)
        if not report.valid:
            problem = f"{path} isn't valid on this service."
            raise StackError(problem, "Fix the problems listed above, or use another --model.")
        reports.append(_named(path, report))
    return reports


def build_knowledge_base(screen: Screen, client: Client, documents: Sequence[str] = DOCUMENTS) -> KnowledgeBase:
    """Uploads the documents, and creates a knowledge base from them. Returns once the knowledge base is searchable."""
    screen.heading(2, "Create a knowledge base from documents", "POST /api/v1/knowledge-bases/")
    file_ids = []
    for path in documents:
        file = client.files.upload(_content(path), name=Path(path).name)
        file_ids.append(file.id)
        screen.good(f"{path}  {file.size:,} bytes, {file.content_type.partition(';')[0]}")
    began = time.monotonic()
    base = client.knowledge_bases.create(name=_KNOWLEDGE_BASE, file_ids=file_ids)
    screen.line(f"knowledge base  {base.id}", "dim")
    phases: set[str] = set()

    def show_progress(reached: KnowledgeBase) -> None:
        phase = reached.processing_metadata.get("phase")
        if phase and phase not in phases:
            phases.add(phase)
            screen.line(f"{reached.progress:3} %  {phase}", "dim")

    base = client.knowledge_bases.wait(base.id, timeout=_INGESTED_SECONDS, on_progress=show_progress)
    if base.status == "failed":
        for datasource_id, error in base.datasource_errors.items():
            snapshot = base.datasource_snapshots.get(datasource_id)
            screen.bad(datasource_id if snapshot is None else snapshot.name, error.message)
        raise StackError("Some documents couldn't be ingested.", "See: ./aes logs ingestion")
    screen.good(f"{base.datasource_count} documents are searchable after {time.monotonic() - began:.1f} s")
    screen.line(f"search “{_SEARCH}”", "dim")
    for found in client.knowledge_bases.search(base.id, query=_SEARCH, top_k=1).results:
        screen.line(f"{found.file_name}{location_in(found)} · score {found.score:.2f}")
    return base


def talk_about(screen: Screen, client: Client, step: int, letter: str, agent: Agent, base: KnowledgeBase) -> Talk:
    """Runs steps 3 and 4, in which an agent answers from the knowledge base and streams its replies."""
    call = "POST /api/v1/runtime/{session_id}/execute/"
    talk = _opened(screen, client, step, letter, agent, call, {"knowledge_bases": [base.id]})
    screen.line(f"knowledge  {base.name}, {base.datasource_count} documents", "dim")
    for question in agent.part.questions:
        screen.blank()
        screen.say("you", question)
        _ask(screen, talk, question, question)
    return talk


def exchange_files(screen: Screen, client: Client, clerk: Agent, directory: Path) -> tuple[Talk, list[Path]]:
    """Uploads files and asks about them. Returns the session, and the paths of downloaded results."""
    talk = _opened(screen, client, 5, "C", clerk, "POST /api/v1/sessions/{session_id}/artifacts/")
    for question, path in zip(clerk.part.questions, _HANDED_OVER, strict=True):
        screen.blank()
        content: Any = question
        if path is not None:
            block = {"type": "file", "source": {"artifact_id": _upload(screen, talk, path)}}
            content = [{"type": "text", "text": question}, block]
        screen.say("you", question if path is None else f"{question} [{Path(path).name}]")
        _ask(screen, talk, question, content)
    made = [artifact for turn in talk.turns for artifact in turn["artifacts"]]
    screen.blank()
    return talk, [_downloaded(screen, talk, artifact, directory) for artifact in made]


def answer_actions(screen: Screen, client: Client, cashier: Agent, restart: Callable[[], None] | None) -> Talk:
    """Asks questions whose turns wait for actions, and resolves the actions.

    If ``restart`` is given, restarts the runtime first, to show that the turn survives.
    """
    talk = _opened(screen, client, 6, "D", cashier, "POST /api/v1/runtime/…/actions/{action_id}/")
    for question in cashier.part.questions:
        screen.blank()
        screen.say("you", question)
        try:
            turn = talk.session.turn(talk.session.execute(question).turn_id)
        except ActionRequired as waiting:
            turn = talk.session.turn(waiting.turn_id)
            screen.say("", "202: the turn is suspended, waiting for")
            for action in waiting.actions:
                wanted = "a person to approve" if action.kind == "approval" else "this program to run"
                screen.say("", f"{wanted} {call_of(action)}", "yellow")
            if restart is not None:
                _outlast(screen, turn, restart)
        while (state := turn.wait()).status == "waiting":
            for action in state.required_actions:
                _resolve(screen, turn, action)
        view = TurnView(screen)
        for event in turn.stream():
            view.show(event)
        talk.turns.append(view.finish(question))
    return talk


def show_history(screen: Screen, talks: Sequence[Talk]) -> list[dict[str, Any]]:
    """Shows and returns the messages of each session."""
    screen.heading(7, "Read the history", "GET /api/v1/runtime/{session_id}/messages/")
    history = []
    for talk in talks:
        messages = list(talk.session.messages())
        history.append({"session_id": talk.session.session_id, "messages": messages, "total": len(messages)})
        screen.line(f"session {talk.letter} · {len(messages)} messages", "dim")
        for message in messages:
            moment = Text(message.timestamp.isoformat()[11:23], style="dim")
            screen.row(moment, Text(f"{message.role:<9}"), Text(" ".join(message.content.split())))
    return history


def show_timeline(
    screen: Screen, client: Client, correlation_id: str, base: KnowledgeBase, talks: Sequence[Talk]
) -> list[TimelineEventView]:
    """Shows and returns the demo's events in timeline order, filtered by correlation ID."""
    screen.heading(8, "Read the timeline", f"GET /api/v1/events/?correlation_id={correlation_id}")
    events = read_timeline(client, correlation_id, {turn["turn_id"] for talk in talks for turn in talk.turns})
    names = _names(base, talks)
    widest = max((len(event.type) for event in events), default=0)
    moments = [f"+{(event.time - events[0].time).total_seconds():.3f} s" for event in events]
    longest = max(map(len, moments), default=0)
    for event, moment in zip(events, moments, strict=True):
        screen.row(
            Text(f"{moment:>{longest}}", style="dim"),
            Text(f"{names.get(event.subject, event.subject[-9:]):<10}"),
            Text(f"{event.type:<{widest}}", style="green" if event.type == "turn.completed" else ""),
            Text(f"{event.source.removeprefix('/aes/')} {event.position}", style="dim"),
        )
    screen.line(
        f"{len(events)} events, each with its service and position. To follow new ones, run: ./aes events tail", "dim"
    )
    return events


def read_timeline(client: Client, correlation_id: str, turns: set[str]) -> list[TimelineEventView]:
    """Returns the events once the given turns have ended. Raises StackError if that takes too long."""
    found: list[TimelineEventView] = []
    open_turns = set(turns)
    try:
        for event in client.events.follow(after=0, correlation_id=correlation_id, timeout=_TIMELINE_SECONDS):
            found.append(event)
            if event.type in _ENDS:
                open_turns.discard(event.subject)
            if not open_turns:
                break
    except TimeLimitReached as late:
        raise StackError("Not all events reached the timeline in time.", "See: ./aes logs gateway") from late
    return found


def consumer_command(bus: BusAddress, password_file: Path | None, correlation_id: str) -> str:
    """Returns a command line that runs the example consumer. It doesn't contain Kafka's password."""
    options = [f"--bootstrap-servers {bus.servers}"]
    if bus.prefix:
        options.append(f"--prefix {bus.prefix}")
    if bus.kafka.username:
        options.append(f"--username {bus.kafka.username} --mechanism {bus.kafka.sasl_mechanism}")
    options.append(f"--correlation-id {correlation_id} --from-beginning --timeout 5")
    command = [f"{near(Path(sys.executable))} examples/consume_events.py", *options]
    if password_file is not None:
        command.insert(0, f"KAFKA_PASSWORD=$(cat {near(password_file)})")
    return " \\\n     ".join(command)


def near(path: Path) -> str:
    """Returns the path relative to the current directory, unless the relative path leads up more than one level."""
    full = path if path.is_absolute() else PROJECT_ROOT / path
    here = Path(os.path.relpath(full))
    return str(full if here.parts[:2] == ("..", "..") else here)


def _content(path: str) -> bytes:
    try:
        return Path(PROJECT_ROOT, path).read_bytes()
    except OSError as problem:
        raise StackError(
            f"Couldn't read the example {path}: {problem.strerror}.", "Restore the file from the repository."
        ) from problem


def _named(path: str, report: ValidationReport) -> dict[str, Any]:
    return {"file": path, **report.model_dump(exclude_unset=True)}


def _show_report(screen: Screen, report: ValidationReport) -> None:
    for finding in report.errors:
        screen.bad(dotted_path(finding.loc), finding.message)
        if finding.hint:
            screen.hint(finding.hint)
    for finding in report.warnings:
        screen.line(f"note: {dotted_path(finding.loc)} {finding.message}", "yellow")
    if report.config_hash is not None:
        screen.good(f"valid · config_hash {report.config_hash[:12]}…")


def _without_comments(text: str) -> str:
    lines = [line.split("  # ")[0].rstrip() for line in text.splitlines()]
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def _opened(
    screen: Screen,
    client: Client,
    step: int,
    letter: str,
    agent: Agent,
    call: str,
    settings: dict[str, Any] | None = None,
) -> Talk:
    screen.heading(step, agent.part.title, call)
    session = client.sessions.create(config={**agent.configuration, **(settings or {})})
    screen.line(f"session {letter}  {session.session_id}", "dim")
    screen.line(f"model      {agent.model}", "dim")
    return Talk(letter, session, agent)


def _ask(screen: Screen, talk: Talk, question: str, content: Any) -> None:
    """Sends a message, shows its turn and stores the result. ``content`` is the question with its attachments."""
    view = TurnView(screen)
    for event in talk.session.stream(content):
        view.show(event)
    talk.turns.append(view.finish(question))


def _upload(screen: Screen, talk: Talk, path: str) -> str:
    began, name = time.monotonic(), Path(path).name
    artifacts = talk.session.artifacts
    artifact: Artifact = artifacts.upload(_content(path), name=name)
    talk.artifacts.append(artifact.artifact_id)
    state = artifacts.wait(artifact.artifact_id, timeout=_PROCESSED_SECONDS)
    if state.error is not None:
        raise StackError(f"Couldn't process {name}: {state.error.message}", "See: ./aes logs artifacts")
    kind = _KINDS[artifact.processing_strategy]
    screen.good(f"{path}  {artifact.size:,} bytes, {kind} after {time.monotonic() - began:.1f} s")
    if artifact.processing_strategy == "structural_parsing":
        for sheet in artifacts.preview(artifact.artifact_id).sheets:
            screen.line(f"sheet “{sheet.name}”, {sheet.row_count} rows: {', '.join(sheet.headers)}", "dim")
    return artifact.artifact_id


def _downloaded(screen: Screen, talk: Talk, artifact: dict[str, Any], directory: Path) -> Path:
    talk.artifacts.append(artifact["artifact_id"])
    directory.mkdir(parents=True, exist_ok=True)
    # The model chose the name, so only its last path segment is used.
    saved = directory / (Path(artifact["name"]).name or "artifact")
    size = talk.session.artifacts.save(artifact["artifact_id"], saved)
    screen.good(f"{artifact['name']}  {size:,} bytes, downloaded")
    screen.line(str(saved), "dim")
    return saved


def _outlast(screen: Screen, turn: TurnHandle[SyncRunner], restart: Callable[[], None]) -> None:
    began = time.monotonic()
    restart()
    status = turn.get().status
    if status != "waiting":
        raise StackError(
            f"After the restart, the turn is no longer waiting: its status is {status}.", "See: ./aes logs runtime"
        )
    screen.good(f"Runtime restarted in {time.monotonic() - began:.1f} s; the turn is still waiting")


def _resolve(screen: Screen, turn: TurnHandle[SyncRunner], action: RequiredAction) -> None:
    if action.kind == "approval":
        turn.resolve(action, decision="approve")
        screen.good(f"Approved {call_of(action)}")
        return
    output = {**action.tool_call.arguments, "free_seats": _FREE_SEATS}
    turn.resolve(action, output=output)
    screen.good(f"Submitted the result of {action.tool_call.name}: {json.dumps(output)}")


def _names(base: KnowledgeBase, talks: Sequence[Talk]) -> dict[str, str]:
    """Returns short names for the subjects of the demo's events."""
    names = {base.id: "knowledge"}
    names |= {document.id: f"file {number}" for number, document in enumerate(base.datasources, 1)}
    for talk in talks:
        names[talk.session.session_id] = f"session {talk.letter}"
        for number, turn in enumerate(talk.turns, 1):
            names[turn["turn_id"]] = f"turn {talk.letter}{number}"
        for number, artifact_id in enumerate(talk.artifacts, 1):
            names[artifact_id] = f"artifact {number}"
    return names
