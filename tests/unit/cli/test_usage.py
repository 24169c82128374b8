"""`aes usage`, `aes budgets` and `aes prices`: what they ask for, and what they show."""

import json
from contextlib import asynccontextmanager
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import typer
from aes_client import models
from typer.testing import CliRunner

from cli import budgets, prices
from cli import usage as command
from cli.databases import ServiceDatabase
from libs.contracts.errors import NotFound
from libs.contracts.timestamps import parse_time
from services.runtime.administration import ListedPrice
from tests.unit.cli.service import document, serve

SUMS = {"turns": 3, "input_tokens": 1000, "output_tokens": 20, "tool_calls": 1, "seconds": 2.5}
PRICED = {**SUMS, "cost": "0.15", "unpriced_turns": 0}
UNPRICED = {**SUMS, "cost": "0.15", "unpriced_turns": 2}
BUDGET = document(
    models.Budget,
    id="budget-1",
    user_id=None,
    key_id=None,
    period="month",
    cost="12.5",
    tokens=None,
    used={"cost": "3", "tokens": 4000},
    renews_at="2030-02-01T00:00:00.000000Z",
)
OTHERS = (
    {**BUDGET, "id": "budget-2", "user_id": "ada", "cost": None, "tokens": 5000},
    {**BUDGET, "id": "budget-3", "key_id": "key-1"},
)


class Service:
    """``lines`` of usage, 1,000 a page; three budgets. ``agents`` may be forbidden to read."""

    def __init__(self) -> None:
        self.asked: list[httpx.Request] = []
        self.lines: list[dict[str, Any]] = [{"day": "2030-01-01", **PRICED}, {"day": "2030-01-02", **UNPRICED}]
        self.refusal: httpx.Response | None = None
        self.agents: list[dict[str, Any]] | None = None
        self.events: list[dict[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if self.refusal is not None:
            return self.refusal
        if request.url.path.endswith("/usage/"):
            return httpx.Response(200, json=self._report(request.url.params))
        if request.method == "DELETE":
            return httpx.Response(204)
        path = request.url.path.removeprefix("/api/v1")
        if path == "/agent/" and self.agents is None:
            return httpx.Response(403, json={"error": {"type": "permission_error", "message": "no agents:read"}})
        if path == "/agent/":
            return httpx.Response(200, json=self.agents)
        if path == "/events/":
            return httpx.Response(200, json={"events": self.events, "has_more": True, "next": 1})
        if request.method == "GET":
            return httpx.Response(200, json={"budgets": [BUDGET, *OTHERS], "total": 3, "has_more": False})
        return httpx.Response(201, json=BUDGET)

    def _report(self, asked: httpx.QueryParams) -> dict[str, Any]:
        begin = int(asked.get("offset", 0))
        end = begin + int(asked["limit"])
        groups = [name for name in asked["group_by"].split(",") if name]
        lines = [{name: each.get(name) for name in ("day", "agent_id", "model", "user_id", "key_id")} | each
                 for each in self.lines[begin:end]]  # fmt: skip
        more = end < len(self.lines)
        return document(models.UsageReport, group_by=groups, usage=lines, totals=UNPRICED, has_more=more)

    @property
    def body(self) -> Any:
        return json.loads(self.asked[-1].content)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    service = Service()
    serve(monkeypatch, service)
    return service


def run(app: typer.Typer, *arguments: str) -> SimpleNamespace:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, list(arguments))
    return SimpleNamespace(code=result.exit_code, out=result.stdout, told=result.stderr)


def test_usage_is_shown_by_day_with_its_total(service: Service) -> None:
    shown = run(command.app)
    assert shown.code == 0, shown.told
    assert dict(service.asked[0].url.params) == {"limit": "1000", "group_by": "day"}
    assert "2030-01-02" in shown.out
    assert "0.15 + 2 unpriced" in shown.out
    assert "total" in shown.out


def test_usage_of_some_days_by_agent_and_model(service: Service) -> None:
    service.lines = [{"agent_id": None, "model": "openai:mini", **PRICED}]
    shown = run(command.app, "--from", "2030-01-01", "--to", "2030-01-31", "--by", "agent,model")
    assert shown.code == 0, shown.told
    wanted = {"from": "2030-01-01", "to": "2030-01-31", "group_by": "agent,model"}
    assert dict(service.asked[0].url.params) == {"limit": "1000", **wanted}
    assert "openai:mini" in shown.out


def changed(kind: str, agent_id: str, name: str) -> dict[str, Any]:
    return {"type": kind, "data": {"agent": {"id": agent_id, "name": name}}}


def test_agents_are_shown_by_name_and_deleted_ones_by_the_name_that_they_had(service: Service) -> None:
    ids = ("here", "renamed", "created", "gone", "twin-1", "twin-2")
    service.lines = [{"agent_id": agent_id, **PRICED} for agent_id in ids]
    service.agents = [
        document(models.Agent, id=agent_id, name=name)
        for agent_id, name in (("here", "Analyst"), ("twin-1", "Twin"), ("twin-2", "Twin"), ("idle", "Idle"))
    ]
    service.events = [
        changed("agent.updated", "renamed", "New name"),
        changed("agent.created", "renamed", "Old name"),
        changed("agent.created", "created", "Clerk"),
    ]

    shown = run(command.app, "--by", "agent")

    assert shown.code == 0, shown.told
    rows = [line.split("  ")[0] for line in shown.out.splitlines()]
    assert [row for row in rows if row] == [
        *("agent", "Analyst", "New name (deleted)", "Clerk (deleted)", "deleted agent gone"),
        *("Twin twin-1", "Twin twin-2", "total"),
    ]
    as_json = json.loads(run(command.app, "--by", "agent", "--json").out)
    assert [line["agent_id"] for line in as_json["usage"]] == list(ids)


def test_a_long_timeline_does_not_hold_up_a_report(service: Service) -> None:
    service.lines = [{"agent_id": "gone", **PRICED}]
    service.agents, service.events = [], [changed("agent.created", f"agent-{number}", "x") for number in range(200)]
    assert "deleted agent gone" in run(command.app, "--by", "agent").out
    assert len(service.asked) == 3


def test_agents_that_the_key_may_not_read_are_shown_by_id(service: Service) -> None:
    service.lines = [{"agent_id": "agent-1", **PRICED}]
    shown = run(command.app, "--by", "agent")
    assert shown.code == 0, shown.told
    assert "agent-1" in shown.out
    assert "deleted" not in shown.out


def test_a_report_of_several_pages_is_one(service: Service) -> None:
    service.lines = [{"day": f"day {number}", **PRICED} for number in range(2500)]
    report = json.loads(run(command.app, "--json").out)
    assert report["has_more"] is False
    assert [line["day"] for line in report["usage"]] == [f"day {number}" for number in range(2500)]
    assert [request.url.params.get("offset") for request in service.asked] == [None, "1000", "2000"]


def test_what_is_wrong_is_said_once_and_with_its_hint(service: Service) -> None:
    message = "Invalid query: group_by takes day."
    details = [
        {"loc": ["query", "group_by"], "type": "enum", "message": "group_by takes day"},
        {"loc": ["query", "from"], "type": "date", "message": "is no day", "hint": "from=2030-01-01"},
        {"loc": ["query", "to"], "type": "date", "message": "is no day"},
    ]
    error = {"type": "validation_error", "message": message, "details": details}
    service.refusal = httpx.Response(422, json={"error": error})
    refused = run(command.app, "--by", "moon")
    assert refused.code == 1
    assert refused.told.count("group_by takes day") == 1
    assert "query.from: is no day (from=2030-01-01)" in refused.told
    assert "query.to: is no day" in refused.told
    assert run(command.app, "--by", "moon", "--json").code == 1


def test_budgets_are_listed_with_whose_they_are(service: Service) -> None:
    shown = run(budgets.app, "list").out
    for text in ("the company", "user ada", "key key-1", "3 of 12.5", "4,000 of 5,000 tokens"):
        assert text in shown
    assert [each["id"] for each in json.loads(run(budgets.app, "list", "--json").out)["budgets"]] == [
        "budget-1",
        "budget-2",
        "budget-3",
    ]


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body"),
    [
        (
            ["create", "--period", "month", "--cost", "12.50", "--user", "ada", "--warn", "80"],
            "POST",
            "/budgets/",
            {"period": "month", "cost": "12.50", "user_id": "ada", "warning_percent": 80},
        ),
        (
            ["create", "--period", "total", "--tokens", "5", "--key", "key-1"],
            "POST",
            "/budgets/",
            {"period": "total", "tokens": 5, "key_id": "key-1"},
        ),
        (["change", "budget-1", "--cost", "20"], "PATCH", "/budgets/budget-1/", {"cost": "20"}),
    ],
)
def test_a_budget_is_made_and_changed(
    service: Service, arguments: list[str], method: str, path: str, body: dict[str, Any]
) -> None:
    shown = run(budgets.app, *arguments)
    assert shown.code == 0, shown.told
    assert (service.asked[-1].method, service.asked[-1].url.path) == (method, f"/api/v1{path}")
    assert service.body == body
    assert service.asked[-1].headers["idempotency-key"]
    assert "3 of 12.5" in shown.told + shown.out
    assert json.loads(run(budgets.app, *arguments, "--json").out) == BUDGET


@pytest.mark.parametrize("wrong", [["--tokens", "0"], ["--tokens", "many"], ["--warn", "100"]])
def test_numbers_that_cannot_be_are_refused_before_anything_is_asked(service: Service, wrong: list[str]) -> None:
    assert run(budgets.app, "create", "--period", "day", *wrong).code == 2
    assert service.asked == []


def test_a_budget_is_deleted(service: Service) -> None:
    assert run(budgets.app, "delete", "budget-1").code == 0
    assert (service.asked[-1].method, service.asked[-1].url.path) == ("DELETE", "/api/v1/budgets/budget-1/")
    assert json.loads(run(budgets.app, "delete", "budget-1", "--json").out) == {"id": "budget-1", "deleted": True}


class Runtime:
    """Prices as the runtime's database has them."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[Decimal, Decimal]] = {}

    async def prices(self) -> list[ListedPrice]:
        changed = parse_time("2030-01-01T00:00:00Z")
        return [
            ListedPrice(model=model, input_price=paid, output_price=produced, updated_at=changed)
            for model, (paid, produced) in sorted(self.kept.items())
        ]

    async def set_price(self, model: str, paid: Decimal, produced: Decimal) -> None:
        self.kept[model] = (paid, produced)

    async def remove_price(self, model: str) -> None:
        if self.kept.pop(model, None) is None:
            raise NotFound(f"No price is set for {model}.")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    runtime = Runtime()

    @asynccontextmanager
    async def opened(_: str) -> Any:
        yield runtime

    monkeypatch.setattr(prices, "_RUNTIME", ServiceDatabase("runtime", opened))
    monkeypatch.setenv("AES_RUNTIME_DATABASE_URL", "postgresql://nowhere")
    return runtime


def test_prices_are_set_listed_and_removed(runtime: Runtime) -> None:
    told = run(prices.app, "set", "openai:*", "--input", "0.50", "--output", "2")
    assert told.code == 0, told.told
    assert "openai:* cost 0.5 (input) and 2 (output)" in told.told + told.out
    assert runtime.kept == {"openai:*": (Decimal("0.50"), Decimal(2))}
    assert "openai:*" in run(prices.app, "list").out
    assert json.loads(run(prices.app, "list", "--json").out)["prices"] == [
        {"model": "openai:*", "input": "0.5", "output": "2", "updated_at": "2030-01-01T00:00:00.000000Z"}
    ]
    assert json.loads(run(prices.app, "remove", "openai:*", "--json").out) == {"model": "openai:*", "removed": True}
    gone = run(prices.app, "remove", "openai:*")
    assert gone.code == 1
    assert "No price is set" in gone.told


def test_a_price_is_a_decimal(runtime: Runtime) -> None:
    wrong = run(prices.app, "set", "openai:*", "--input", "cheap", "--output", "2")
    assert wrong.code == 2
    assert "a decimal such as 2.50" in wrong.told
    assert runtime.kept == {}
