"""`aes demo`: its steps against a service that answers from a table, and how it shows a turn."""

import io
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import orjson
import pytest
from aes_client import StreamedEvent, models
from aes_client.models import TimelineEventView
from rich.cells import cell_len
from rich.console import Console

from cli.connection import Connection
from cli.demo import command, steps
from cli.demo.command import Running, show_next_steps
from cli.demo.steps import near
from cli.demo.view import Screen, TurnView, Typewriter
from cli.installation import BusAddress
from deploy.local.errors import StackError
from deploy.local.home import PROJECT_ROOT
from libs.eventing import KafkaConnection
from tests.support.client_service import FakeService, blocking, event, events
from tests.support.client_service import event as sent
from tests.unit.cli.service import document


def a_screen(width: int = 80) -> tuple[Screen, io.StringIO]:
    out = io.StringIO()
    return Screen(console=Console(file=out, width=width, highlight=False)), out


_ERROR = {"type": "validation_error", "message": "it is damaged"}


def service_with(made: str = "income-2025.xlsx", state: str = "ready") -> FakeService:
    """Files are in processing at the first look and then `state`; the last turn makes a file."""
    service = FakeService()
    strategies = {"a1": "rag_indexing", "a2": "structural_parsing"}
    uploads = [document(models.Artifact, artifact_id=name, processing_strategy=how) for name, how in strategies.items()]
    service.on("POST", "/sessions/", document(models.SessionCreatedReply, session_id="s1"))
    service.on("POST", "/sessions/s1/artifacts/", *uploads)
    states = [document(models.ArtifactState, processing_status=each) for each in ("pending", state)]
    states[1]["error"] = _ERROR if state == "failed" else None
    for name in strategies:
        service.on("GET", f"/sessions/s1/artifacts/{name}/status/", *states)
    sheet = document(models.Sheet, name="Tickets", headers=["month", "income"], row_count=36)
    service.on("GET", "/sessions/s1/artifacts/a2/preview/", {"sheets": [sheet]})
    for artifacts in ([], [], [{"artifact_id": "a3", "name": made}]):
        reply = document(models.ExecuteReply, response={"content": "Well.", "artifacts": artifacts})
        service.on("POST", "/runtime/s1/execute/", events(event("1", "turn.completed", **reply)))
    service.on("GET", "/sessions/s1/artifacts/a3/download/", httpx.Response(200, content=b"bytes"))
    return service


def exchange(service: FakeService, place: Path) -> tuple[Any, list[Path], str]:
    screen, out = a_screen()
    clerk = steps.Agent.load(steps.CLERK, None)
    talk, saved = steps.exchange_files(screen, blocking(service), clerk, place)
    return talk, saved, out.getvalue()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aes_client.runners.time.sleep", lambda _: None)


def test_files_are_handed_over_asked_about_and_downloaded(tmp_path: Path) -> None:
    service = service_with()
    talk, saved, shown = exchange(service, tmp_path / "demo")
    uploads = service.calls("POST", "/sessions/s1/artifacts/")
    for upload, name in zip(uploads, (b"skarholm-meeting-2026.docx", b"skarholm-tickets-2025.xlsx"), strict=True):
        assert name in upload.content
    asked = [orjson.loads(each.content)["content"] for each in service.calls("POST", "/runtime/s1/execute/")]
    blocks = [content[1]["source"]["artifact_id"] if isinstance(content, list) else None for content in asked]
    assert blocks == ["a1", "a2", None]
    assert (saved, saved[0].read_bytes()) == ([tmp_path / "demo" / "income-2025.xlsx"], b"bytes")
    assert talk.artifacts == ["a1", "a2", "a3"]
    assert [turn["content"] for turn in talk.as_json()["turns"]] == ["Well."] * 3
    assert "sheet “Tickets”, 36 rows: month, income" in shown
    assert all(len(line) <= 80 for line in shown.splitlines() if str(tmp_path) not in line)


def test_a_name_from_a_model_leads_nowhere_else(tmp_path: Path) -> None:
    _, saved, _ = exchange(service_with(made="../../etc/x.xlsx"), tmp_path)
    assert saved == [tmp_path / "x.xlsx"]


def test_a_file_that_cannot_be_processed_ends_the_demo_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="it is damaged"):
        exchange(service_with(state="failed"), tmp_path)


def knowledge_base(status: str, phase: str = "", progress: int = 0, **more: Any) -> dict[str, Any]:
    return document(
        models.KnowledgeBase,
        id="kb1",
        name="Skarholm Line",
        status=status,
        progress=progress,
        processing_metadata={"phase": phase} if phase else {},
        datasource_count=2,
        datasource_snapshots={"f1": document(models.DatasourceSnapshot, name="fees.md")},
        **more,
    )


def build(*looks: dict[str, Any]) -> tuple[models.KnowledgeBase, FakeService, str]:
    """Builds a knowledge base whose ingestion is seen in these states, one after the other."""
    service = FakeService()
    files = [document(models.File, id=name, content_type="text/markdown") for name in ("f1", "f2")]
    service.on("POST", "/files/", *files)
    service.on("POST", "/knowledge-bases/", knowledge_base("pending"))
    service.on("GET", "/knowledge-bases/kb1/", *looks)
    found = document(models.Citation, file_name="fees.md", row=4, passage="Fees.", score=0.5)
    service.on("POST", "/knowledge-bases/kb1/search/", document(models.SearchReply, results=[found]))
    screen, out = a_screen()
    base = steps.build_knowledge_base(screen, blocking(service), steps.DOCUMENTS[:2])
    return base, service, out.getvalue()


def test_documents_become_a_knowledge_base_that_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aes_client.runners.time.sleep", lambda _: None)
    looks = (
        knowledge_base("pending", "queued"),
        knowledge_base("running", "parsing", 10),
        knowledge_base("running", "parsing", 20),
    )
    base, service, shown = build(*looks, knowledge_base("completed", progress=100))
    assert base.status == "completed"
    uploads = [each.content for each in service.calls("POST", "/files/")]
    assert [b"skarholm-line-handbook.md" in uploads[0], b"skarholm-cafe.html" in uploads[1], len(uploads)] == [
        True,
        True,
        2,
    ]
    [made] = service.calls("POST", "/knowledge-bases/")
    assert orjson.loads(made.content) == {"name": "Skarholm Line", "file_ids": ["f1", "f2"]}
    assert [shown.count(text) for text in ("queued", "parsing", "2 documents are searchable")] == [1, 1, 1]
    assert "fees.md, row 4 · score 0.50" in shown


def test_a_document_that_fails_ends_the_demo_with_the_reason() -> None:
    error = document(models.DatasourceError, code="damaged", message="It is damaged.", phase="parsing")
    with pytest.raises(StackError, match="Some documents"):
        build(knowledge_base("failed", datasource_errors={"f1": error}))


PLACE = "/runtime/s1/turns/t1/"


def action(number: int, kind: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    call = {"id": f"c{number}", "name": name, "arguments": arguments}
    return document(models.RequiredAction, action_id=f"a{number}", kind=kind, tool_call=call)


class WaitingService(FakeService):
    """The turn waits for each round of actions in its turn. ``status``: that of a turn which waits."""

    def __init__(self, *rounds: list[dict[str, Any]], status: str = "waiting") -> None:
        super().__init__()
        self.rounds = list(rounds)
        self.answers: dict[str, Any] = {}
        self.status = status
        self.reply = document(models.ExecuteReply, turn_id="t1", response={"content": "735"})
        self.on("POST", "/sessions/", document(models.SessionCreatedReply, session_id="s1"))
        self.on("POST", "/runtime/s1/execute/", lambda _: self._executed())
        self.on("GET", PLACE, lambda _: self._turn())
        self.on("GET", f"{PLACE}events/", events(event("1", "turn.completed", **self.reply)))
        for each in (action for actions in rounds for action in actions):
            self.on("POST", f"{PLACE}actions/{each['action_id']}/", self._answered)

    def _executed(self) -> httpx.Response:
        if not self.rounds:
            return httpx.Response(200, json=self.reply)
        waits = {"status": "waiting", "required_actions": self.rounds[0]}
        return httpx.Response(202, json=document(models.TurnAccepted, turn_id="t1", session_id="s1", **waits))

    def _turn(self) -> dict[str, Any]:
        if not self.rounds:
            return document(models.Turn, status="completed", reply=self.reply)
        return document(models.Turn, status=self.status, required_actions=self.rounds[0])

    def _answered(self, request: httpx.Request) -> dict[str, Any]:
        self.answers[request.url.path.split("/")[-2]] = orjson.loads(request.content)
        if set(self.answers) >= {each["action_id"] for each in self.rounds[0]}:
            self.rounds.pop(0)
        return self._turn()


def answer(service: WaitingService, restart: Any = None) -> tuple[Any, str]:
    screen, out = a_screen()
    talk = steps.answer_actions(screen, blocking(service), steps.Agent.load(steps.CASHIER, None), restart)
    return talk, out.getvalue()


SUM = action(1, "approval", "calculator", {"expression": "3 * 245"})
SEATS = action(2, "tool_result", "free_seats", {"crossing": 4711})


def test_it_allows_one_call_and_makes_the_other_after_a_restart() -> None:
    restarts: list[int] = []
    service = WaitingService([SUM, SEATS])
    talk, shown = answer(service, lambda: restarts.append(len(service.answers)))
    assert service.answers == {"a1": {"decision": "approve"}, "a2": {"output": {"crossing": 4711, "free_seats": 118}}}
    assert restarts == [0], "once, before anything is answered"
    assert len(service.calls("POST", "/runtime/s1/execute/")) == 1
    for told in ("a person to approve calculator", "this program to run free_seats", "still waiting", "735"):
        assert told in shown
    assert talk.turns[0]["turn_id"] == "t1"
    assert max(map(len, shown.splitlines())) <= 80


def test_a_turn_may_wait_twice_and_nothing_is_restarted_elsewhere() -> None:
    service = WaitingService([SUM], [SEATS])
    _, shown = answer(service)
    assert set(service.answers) == {"a1", "a2"}
    assert "restarted" not in shown


def test_a_model_that_calls_nothing_just_answers() -> None:
    talk, _ = answer(WaitingService(), lambda: pytest.fail("nothing to outlast"))
    assert talk.turns[0]["content"] == "735"


def test_a_wait_that_is_lost_is_a_failure() -> None:
    with pytest.raises(StackError, match="status is failed"):
        answer(WaitingService([SUM], status="failed"), lambda: None)


def happened(position: int, kind: str, subject: str) -> bytes:
    return sent(str(position), kind, **document(TimelineEventView, position=position, type=kind, subject=subject))


def test_the_timeline_is_read_until_the_turns_have_ended() -> None:
    service = FakeService()
    service.on(
        "GET",
        "/events/",
        events(happened(3, "turn.started", "a"), happened(5, "turn.completed", "a")),
        events(happened(9, "turn.failed", "b"), happened(10, "turn.started", "c")),
    )
    found = steps.read_timeline(blocking(service), "mine", {"a", "b"})
    assert [event.position for event in found] == [3, 5, 9]
    assert [each.headers.get("last-event-id") for each in service.requests] == [None, "5"]
    assert {each.url.params["correlation_id"] for each in service.requests} == {"mine"}


def test_a_timeline_that_gets_nothing_ends_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_TIMELINE_SECONDS", 0.0)
    service = FakeService()
    service.on("GET", "/events/", events(b": keep-alive\n\n"))
    with pytest.raises(StackError, match="timeline"):
        steps.read_timeline(blocking(service), "mine", {"a"})


def test_the_command_for_kafka_can_be_copied(tmp_path: Path) -> None:
    password_file = tmp_path / "kafka-password"
    kafka = KafkaConnection(
        servers="127.0.0.1:9092",
        security_protocol="sasl_plaintext",
        sasl_mechanism="PLAIN",
        username="aes",
        password="of-kafka",
    )
    command = steps.consumer_command(BusAddress(kafka, "test-"), password_file, "mine").replace("\\\n", "")
    assert command.startswith(f"KAFKA_PASSWORD=$(cat {near(password_file)}) ")
    interpreter, example, *options = shlex.split(command.partition(") ")[2])
    assert Path(interpreter).resolve() == Path(sys.executable).resolve()
    assert (PROJECT_ROOT / example).exists()
    assert options[: options.index("--timeout")] == [
        *("--bootstrap-servers", "127.0.0.1:9092", "--prefix", "test-", "--username", "aes", "--mechanism", "PLAIN"),
        *("--correlation-id", "mine", "--from-beginning"),
    ]
    assert "of-kafka" not in command


def check(*configured: str, model: str = "openai:gpt-4o", ours: bool = True) -> None:
    """Checks a service that has keys for these providers."""
    names = ("builtin", "openai", "anthropic", "ollama")
    service = FakeService()
    providers = [{"provider": name, "configured": name in configured} for name in names]
    service.on("GET", "/models/", {"models": [], "providers": providers})
    command.check_service(blocking(service), "http://service", model, ours=ours)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "OLLAMA_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("model", ["gpt-4o", "nobody:gpt", "openai:", ":gpt"])
def test_a_name_that_cannot_work_is_refused_with_the_form_that_does(model: str) -> None:
    with pytest.raises(StackError) as failure:
        command.check_caller(model, will_start=False)
    assert "provider:name" in failure.value.remedy


def test_a_missing_key_or_address_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StackError, match="OLLAMA_BASE_URL"):
        command.check_caller("ollama:llama", will_start=True)
    with pytest.raises(StackError, match="OPENAI_API_KEY"):
        command.check_caller("openai:gpt-4o", will_start=True)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    command.check_caller("openai:gpt-4o", will_start=True)


@pytest.mark.parametrize(
    ("ours", "remedy"), [(True, "./aes down && ./aes demo --model openai:gpt-4o"), (False, "operator")]
)
def test_a_running_service_without_the_key_has_its_remedy(
    monkeypatch: pytest.MonkeyPatch, ours: bool, remedy: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(StackError) as failure:
        check("builtin", ours=ours)
    assert remedy in failure.value.remedy


def test_a_running_service_that_has_the_key_is_enough_and_the_builtin_model_needs_none() -> None:
    command.check_caller("openai:gpt-4o", will_start=False)
    check("openai")
    command.check_caller("builtin:extractive", will_start=True)
    check("builtin", model="builtin:extractive")


def turn_event(kind: str, **data: Any) -> StreamedEvent:
    model = models.TURN_EVENTS[kind]
    return StreamedEvent("1", kind, model.model_validate(document(model, **data)))


STARTED = turn_event(
    "turn.tool_call.started", step=1, call_id="c1", name="calculator", arguments={"expression": "6 * 7"}
)
ENDED = turn_event("turn.tool_call.completed", step=1, call_id="c1", name="calculator", output="42")


def delta(text: str) -> StreamedEvent:
    return turn_event("turn.output_text.delta", text=text)


def completed(content: str) -> StreamedEvent:
    return turn_event("turn.completed", response={"content": content}, usage={"input_tokens": 3, "output_tokens": 2})


def shown(*events: StreamedEvent) -> str:
    screen, out = a_screen()
    view = TurnView(screen)
    for each in events:
        view.show(each)
    return out.getvalue()


def test_text_appears_as_it_comes_and_once() -> None:
    assert shown(delta("Forty "), delta("two.")).split() == ["agent", "Forty"]
    assert shown(delta("Forty "), delta("two."), completed("Forty two.")).count("Forty") == 1


def test_results_of_calls_are_shown_in_the_order_of_the_calls() -> None:
    other = {"step": 1, "call_id": "c2", "name": "free_seats"}
    begun = turn_event("turn.tool_call.started", arguments={}, **other)
    ended = turn_event("turn.tool_call.completed", output="12", **other)
    output = shown(STARTED, begun, ended, ENDED, delta("Yes."), completed("Yes."))
    assert output.index("calculator") < output.index("→ 42") < output.index("→ 12") < output.index("Yes.")


def test_lost_pieces_are_made_good_by_the_final_text() -> None:
    assert "The whole reply." in shown(delta("The who"), completed("The whole reply."))


def test_text_of_an_attempt_that_was_given_up_is_not_part_of_the_reply() -> None:
    restarted = turn_event("turn.restarted", attempt=2, resumed_from_step=1)
    output = shown(delta("stale"), restarted, delta("fresh"), completed("fresh"))
    assert output.index("stale") < output.index("another worker") < output.index("fresh")
    assert output.count("fresh") == 1


def test_a_failed_turn_says_why_and_what_to_do() -> None:
    error = {"type": "model_error", "message": "the provider refused the key"}
    with pytest.raises(StackError) as failure:
        shown(turn_event("turn.failed", error=error))
    assert "the provider refused the key" in failure.value.problem
    assert "key" in failure.value.remedy


def typed(*pieces: str, width: int = 20, indent: int = 4) -> str:
    out: list[str] = []
    with Typewriter(out.append, lambda: out.append("who:"), indent, width) as writer:
        for piece in pieces:
            writer.feed(piece)
    return "".join(out)


def test_text_is_wrapped_at_words_wherever_its_pieces_cut_them() -> None:
    text = "one two three four five"
    assert typed(*text) == typed(text) == typed(text[:9], text[9:]) == "who:one two three\n    four five\n"


@pytest.mark.parametrize("text", ["x" * 50, "日本語" * 12])
def test_no_line_is_wider_than_the_screen(text: str) -> None:
    lines = typed(text).splitlines()
    assert all(cell_len(line) <= 20 for line in lines)
    assert "".join(line[4:] for line in lines) == text


def test_paragraphs_stay_and_what_could_steer_the_terminal_is_left_out() -> None:
    assert typed("one\n\n\n\ntwo\n\n") == "who:one\n\n    two\n"
    assert typed("a\x1b[31mb\x07\r c") == "who:a[31mb c\n"


@pytest.mark.parametrize("public", ["", "http://127.0.0.1:8080"])
def test_a_demo_in_a_container_names_the_address_of_its_users(monkeypatch: pytest.MonkeyPatch, public: str) -> None:
    monkeypatch.setenv("AES_PUBLIC_URL", public)
    screen, shown = a_screen(width=200)
    part = SimpleNamespace(questions=["What is it?"], agent="examples/agents/analyst.yaml")
    agent = SimpleNamespace(part=part)
    talk: Any = SimpleNamespace(session=SimpleNamespace(session_id="s1"), agent=agent)
    running = Running(Connection("http://gateway:8000", "key"), None, None)
    show_next_steps(screen, running, talk)
    assert f"AES={public or 'http://gateway:8000'}/api/v1" in shown.getvalue()
    assert f"{public or 'http://gateway:8000'}/studio/" in shown.getvalue()
