"""Builds the images of the node, of the project and of its servers with a Docker engine of the cluster's own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.images.fallback_images.recipes import wanted_images
from deploy.local.home import PROJECT_ROOT
from tests.cluster import packages
from tests.cluster.cache import CACHE, locked
from tests.cluster.node import remove_cgroups
from tests.cluster.programs import COREDNS, KEDA, METRICS_SERVER, PAUSE
from tests.cluster.settings import PAUSE_IMAGE

VERSION: Final = "0.1.0"
OURS: Final = ("gateway", "registry", "runtime", "ingestion", "artifacts", "timeline", "cli")
_SERVERS: Final = ("python", "kafka", "postgres", "versitygw", "weaviate")
PROGRAM_IMAGES: Final = {
    PAUSE_IMAGE: PAUSE.path("pause"),
    "localhost/coredns:1": COREDNS.path("coredns"),
    "localhost/metrics-server:1": METRICS_SERVER.path("metrics-server"),
    "localhost/keda:1": KEDA.path("keda"),
    "localhost/keda-adapter:1": KEDA.path("keda-adapter"),
}
_ENGINE: Final = CACHE / "docker"
_CGROUP: Final = "aes-cluster-images"
_ARCHIVES: Final = CACHE / "images"
_AUTHORITIES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 30.0
Say = Callable[[str], None]


def archives(say: Say) -> list[Path]:
    """Builds all images and returns archives that containerd imports; what is built already takes seconds."""
    with locked("images"), _engine() as environment:
        servers = [image for name, image in wanted_images().items() if name in _SERVERS[1:]]
        command = [sys.executable, "-m", "deploy.images.fallback_images", *_SERVERS]
        subprocess.run(command, cwd=PROJECT_ROOT, env=environment, check=True)
        for name in OURS:
            began = time.monotonic()
            _build(environment, f"agent-execution-service/{name}:{VERSION}", PROJECT_ROOT, "--target", name)
            say(f"image of {name}: {time.monotonic() - began:.0f} s")
        for image, program in PROGRAM_IMAGES.items():
            _build_program(environment, image, program)
        ours = [f"agent-execution-service/{name}:{VERSION}" for name in OURS]
        made = {"node": [*PROGRAM_IMAGES], "servers": servers, "project": ours}
        return [_save(environment, name, images) for name, images in made.items()]


@contextmanager
def _engine() -> Iterator[Mapping[str, str]]:
    """The environment of commands that use the engine; it reaches the network as this machine does."""
    run = _ENGINE / "run"
    run.mkdir(parents=True, exist_ok=True)
    socket = run / "docker.sock"
    environment = packages.environment() | {
        "DOCKER_HOST": f"unix://{socket}",
        "DOCKER_BUILDKIT": "0",
        "DOCKER_CONFIG": str(_ENGINE / "configuration"),
    }
    command = ["unshare", "--mount", "--propagation=private", str(packages.program("dockerd"))]
    command += [f"--host=unix://{socket}", f"--data-root={_ENGINE}/data", f"--exec-root={run}", f"--pidfile={run}/pid"]
    command += ["--bridge=none", "--iptables=false", "--ip6tables=false", f"--cgroup-parent=/{_CGROUP}"]
    (run / "pid").unlink(missing_ok=True)
    with (_ENGINE / "log").open("ab") as log:
        engine = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait(engine, environment)
        yield environment
    finally:
        engine.terminate()
        try:
            engine.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            engine.kill()
            engine.wait()
        remove_cgroups(_CGROUP)


def _wait(engine: subprocess.Popen[bytes], environment: Mapping[str, str]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while subprocess.run(["docker", "version"], env=environment, capture_output=True, check=False).returncode != 0:
        if engine.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Docker's engine does not start: see {_ENGINE}/log")
        time.sleep(0.5)


def _build(environment: Mapping[str, str], image: str, context: Path, *options: str) -> None:
    command = ["docker", "build", "--quiet", "--network=host", "--tag", image, *options, str(context)]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)


def _build_program(environment: Mapping[str, str], image: str, program: Path) -> None:
    """An image that holds one program and the certificates of public authorities."""
    with tempfile.TemporaryDirectory(prefix="aes-image-") as temporary:
        context = Path(temporary)
        shutil.copy(program, context / "program")
        shutil.copy(_AUTHORITIES, context / "ca-certificates.crt")
        (context / "Dockerfile").write_text(
            f"FROM scratch\nCOPY ca-certificates.crt {_AUTHORITIES}\nCOPY program /{program.name}\n"
            f'USER 65532:65532\nENTRYPOINT ["/{program.name}"]\n'
        )
        _build(environment, image, context)


def _save(environment: Mapping[str, str], name: str, images: list[str]) -> Path:
    """An archive of the images; one that has them already stays, since writing it takes a minute."""
    _ARCHIVES.mkdir(parents=True, exist_ok=True)
    archive, held = _ARCHIVES / f"{name}.tar", _ARCHIVES / f"{name}.txt"
    inspect = ["docker", "image", "inspect", "--format={{.Id}} {{.RepoTags}}", *images]
    wanted = subprocess.run(inspect, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    if not archive.exists() or not held.exists() or held.read_text() != wanted:
        held.unlink(missing_ok=True)
        subprocess.run(["docker", "save", "--output", str(archive), *images], env=environment, check=True)
        held.write_text(wanted)
    return archive
