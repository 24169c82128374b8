import pytest

from libs.contracts.resources.agents import CreateAgentBody, UpdateAgentBody
from services.registry.domain.agent import agent_errors
from tests.support.registry import configuration


def kinds(body: CreateAgentBody | UpdateAgentBody) -> list[tuple[list[str | int], str]]:
    return [(error.loc, error.type) for error in agent_errors(body)]


def test_a_change_may_leave_out_but_not_empty_a_field() -> None:
    changes = UpdateAgentBody(name=None, llm_config=None, origin_url=None, output_schema=None)

    assert kinds(changes) == [(["name"], "null_not_allowed"), (["llm_config"], "null_not_allowed")]


@pytest.mark.parametrize(
    "origin", ["https://example.com", "http://localhost:3000", "HTTPS://Shop.Example.com", "http://127.0.0.1"]
)
def test_allowed_origins(origin: str) -> None:
    assert kinds(CreateAgentBody.model_validate(configuration(allowed_origins=[origin]))) == []


@pytest.mark.parametrize(
    "origin", ["example.com", "https://example.com/", "https://example.com/x", "*", "ftp://a", "https://a b"]
)
def test_origins_that_are_none(origin: str) -> None:
    body = CreateAgentBody.model_validate(configuration(allowed_origins=["https://example.com", origin]))

    assert kinds(body) == [(["allowed_origins", 1], "origin_invalid")]


@pytest.mark.parametrize("url", ["javascript:alert(1)", "example.com", "https://", ""])
def test_an_origin_url_is_http(url: str) -> None:
    assert kinds(UpdateAgentBody(origin_url=url)) == [(["origin_url"], "url_invalid")]
