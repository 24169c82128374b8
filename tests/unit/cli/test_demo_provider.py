import pytest

from cli.demo import command
from deploy.local.errors import StackError
from tests.support.client_service import FakeService, blocking


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


def test_a_missing_key_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StackError, match="OPENAI_API_KEY"):
        command.check_caller("openai:gpt-4o", will_start=True)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    command.check_caller("openai:gpt-4o", will_start=True)


def test_a_server_without_keys_is_configured_by_its_address() -> None:
    with pytest.raises(StackError, match="OLLAMA_BASE_URL"):
        command.check_caller("ollama:llama", will_start=True)


def test_a_running_service_that_has_the_key_is_enough() -> None:
    command.check_caller("openai:gpt-4o", will_start=False)
    check("openai")


def test_a_running_stack_without_the_key_is_to_be_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(StackError) as failure:
        check("builtin")
    assert "./aes down && ./aes demo --model openai:gpt-4o" in failure.value.remedy


def test_a_service_elsewhere_is_its_operators_to_configure() -> None:
    with pytest.raises(StackError) as failure:
        check("builtin", ours=False)
    assert "operator" in failure.value.remedy


def test_the_builtin_model_needs_nothing() -> None:
    command.check_caller("builtin:extractive", will_start=True)
    check("builtin", model="builtin:extractive")
