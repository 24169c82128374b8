"""`deploy/k8s/new_secrets.py` makes what the overlays use."""

import json
from typing import Any

import pytest
import yaml

from deploy.k8s.new_secrets import main
from deploy.k8s.rendering import ROOT
from tests.contract.kustomize import Manifest, of_kind

_EXAMPLES: dict[str, dict[str, str]] = {
    secret["metadata"]["name"]: secret["stringData"]
    for secret in yaml.safe_load_all((ROOT / "secrets.example.yaml").read_text())
}
_ADDRESSES = ("--postgres", "postgres.databases.svc", "--objects", "s3.example.com")
_EVERYTHING = (
    *_ADDRESSES,
    "--kafka-users",
    "--weaviate",
    "--provider",
    "OPENAI_API_KEY",
    "--provider",
    "OPENAI_BASE_URL",
)


def made(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, str]]:
    main(arguments)
    namespace, *secrets = json.loads(capsys.readouterr().out)["items"]
    assert namespace["kind"] == "Namespace"
    assert {one["metadata"]["namespace"] for one in secrets} == {namespace["metadata"]["name"]}
    return {one["metadata"]["name"]: one["stringData"] for one in secrets}


def test_all_of_the_example_are_made(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://models.example.com/v1")

    secrets = made(capsys, *_EVERYTHING)

    # A certificate comes from an authority.
    assert {name: {*data} for name, data in secrets.items()} == {
        name: {*data} for name, data in _EXAMPLES.items() if name != "gateway-tls"
    }


def test_the_namespace_is_that_of_the_overlay(production: tuple[Manifest, ...], capsys: Any) -> None:
    (wanted,) = of_kind(production, "Namespace")
    main(_ADDRESSES)
    made_namespace = json.loads(capsys.readouterr().out)["items"][0]

    assert made_namespace == wanted


def test_every_run_makes_others(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = made(capsys, *_ADDRESSES), made(capsys, *_ADDRESSES)

    values = [[value for data in one.values() for value in data.values() if value] for one in (first, second)]
    assert len({*values[0], *values[1]}) == len(values[0]) + len(values[1])


def test_what_the_environment_has_is_taken(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_PASSWORD", "a/b:c@d")
    monkeypatch.setenv("INGESTION_OBJECTS", "ACCESS:SE/CRET")

    secrets = made(capsys, *_ADDRESSES)

    assert secrets["runtime-database"]["url"].startswith("postgresql://runtime:a%2Fb%3Ac%40d@postgres.databases.svc/")
    assert secrets["ingestion-objects"]["url"] == "s3://ACCESS:SE%2FCRET@s3.example.com/ingestion"


def test_generated_accounts_are_listed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for service in ("GATEWAY", "REGISTRY", "RUNTIME", "INGESTION", "ARTIFACTS", "TIMELINE"):
        monkeypatch.setenv(f"{service}_PASSWORD", "given")
    monkeypatch.setenv("INGESTION_OBJECTS", "ACCESS:SECRET")
    monkeypatch.delenv("ARTIFACTS_OBJECTS", raising=False)

    main(_ADDRESSES)
    assert "unset variables: ARTIFACTS_OBJECTS." in capsys.readouterr().err

    monkeypatch.setenv("ARTIFACTS_OBJECTS", "ACCESS:SECRET")
    main(_ADDRESSES)
    assert capsys.readouterr().err == ""


def test_a_provider_without_a_key_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    with pytest.raises(SystemExit, match="OPENAI_API_KEY isn't set"):
        made(capsys, *_ADDRESSES, "--provider", "OPENAI_API_KEY")
