import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.local import kafka_jars
from deploy.local.errors import StackError
from deploy.local.files import check_disk
from deploy.local.kafka_jars import fetch_jars, installed_jars
from libs.retry import RetryPolicy

CONTENT = b"the jar"


@dataclass
class Maven:
    """Answers the chain project → version → artifact → file, with the same bytes for every jar."""

    directory: Path
    content: bytes = CONTENT
    failure: Exception | None = None
    name: str = ""

    def project(self, group: str, name: str) -> "Maven":
        return Maven(self.directory, self.content, self.failure, name)

    def at_version(self, version: str) -> "Maven":
        return Maven(self.directory, self.content, self.failure, f"{self.name}-{version}")

    def artifact(self) -> "Maven":
        return self

    def resolve(self) -> Path:
        if self.failure is not None:
            raise self.failure
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / f"{self.name}.jar"
        file.write_bytes(self.content)
        return file


@pytest.fixture(autouse=True)
def two_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    (tmp_path / "list.txt").write_text(f"org.a one 1.0 {digest}\norg.b two 2.0 {digest}\n")
    monkeypatch.setattr(kafka_jars, "_LIST", tmp_path / "list.txt")
    monkeypatch.setattr(kafka_jars, "_RETRIES", RetryPolicy(first=0.0, attempts=3))


def serve(monkeypatch: pytest.MonkeyPatch, content: bytes = CONTENT, failure: Exception | None = None) -> None:
    monkeypatch.setattr(kafka_jars, "_maven", lambda repository: Maven(repository, content, failure))


def test_jars_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch)
    assert installed_jars(tmp_path) is None
    fetched = fetch_jars(tmp_path, lambda detail: None)
    assert [path.name for path in fetched] == ["one-1.0.jar", "two-2.0.jar"]
    assert installed_jars(tmp_path) == fetched


def test_a_missing_jar_means_that_all_are_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch)
    fetch_jars(tmp_path, lambda detail: None)[0].unlink()
    assert installed_jars(tmp_path) is None
    fetch_jars(tmp_path, lambda detail: None)
    assert installed_jars(tmp_path) is not None


def test_a_file_with_another_hash_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, content=b"something else")
    with pytest.raises(StackError, match="SHA-256"):
        fetch_jars(tmp_path, lambda detail: None)
    assert installed_jars(tmp_path) is None
    assert not list(tmp_path.glob("partial*"))


def test_a_network_that_is_gone_for_a_moment_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch)
    problems = [ConnectionError("gone"), ConnectionError("still gone")]
    resolve = Maven.resolve

    def resolve_in_the_end(maven: Maven) -> Path:
        if maven.name == "two-2.0" and problems:
            raise problems.pop()
        return resolve(maven)

    monkeypatch.setattr(Maven, "resolve", resolve_in_the_end)
    assert len(fetch_jars(tmp_path, lambda detail: None)) == 2
    assert not problems


@pytest.mark.parametrize(
    ("given", "trusted"),
    [
        ({"SSL_CERT_FILE": "/ssl.pem"}, "/ssl.pem"),
        ({"PIP_CERT": "/pip.pem", "SSL_CERT_FILE": "/ssl.pem"}, "/pip.pem"),
        ({"PIP_CERT": "/pip.pem", "REQUESTS_CA_BUNDLE": "/own.pem"}, "/own.pem"),
        ({}, None),
    ],
)
def test_the_certificates_of_the_python_packages_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], trusted: str | None
) -> None:
    for name in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    serve(monkeypatch)
    seen, resolve = set(), Maven.resolve

    def resolve_and_look(maven: Maven) -> Path:
        seen.add(os.environ.get("REQUESTS_CA_BUNDLE"))
        return resolve(maven)

    monkeypatch.setattr(Maven, "resolve", resolve_and_look)
    fetch_jars(tmp_path, lambda detail: None)
    assert seen == {trusted}
    assert os.environ.get("REQUESTS_CA_BUNDLE") == given.get("REQUESTS_CA_BUNDLE")


def test_no_network_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, failure=ConnectionError("unreachable"))
    with pytest.raises(StackError, match="unreachable") as caught:
        fetch_jars(tmp_path, lambda detail: None)
    assert "AES_MAVEN_REPOSITORY" in caught.value.remedy


def test_too_little_disk_is_explained(tmp_path: Path) -> None:
    check_disk(tmp_path, 1)
    with pytest.raises(StackError, match="Not enough disk space") as caught:
        check_disk(tmp_path, 2**60)
    assert "AES_HOME" in caught.value.remedy
