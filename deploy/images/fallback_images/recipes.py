"""The recipes of the fallback images."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import yaml

from deploy.images.fallback_images.go_programs import GoProgram, built
from deploy.local.home import PROJECT_ROOT, Home
from deploy.local.kafka_jars import KAFKA_VERSION, fetch_jars, installed_jars
from deploy.local.postgres import installation

_HERE = Path(__file__).parent
Recipe = Callable[[str], AbstractContextManager[Path]]
"""Takes an image's tag, and yields the image's build directory."""


@contextmanager
def _context(name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=f"aes-{name}-") as temporary:
        context = Path(temporary, name)
        shutil.copytree(_HERE / name, context)
        yield context


@contextmanager
def _kafka(tag: str) -> Iterator[Path]:
    if tag != KAFKA_VERSION:
        raise SystemExit(f"Kafka {tag} is required, but the pinned JAR files are version {KAFKA_VERSION}")
    cache = Home.from_environment().cache
    cache.mkdir(parents=True, exist_ok=True)
    jars = installed_jars(cache) or fetch_jars(cache, lambda _: None)
    with _context("kafka") as context:
        (context / "jars").mkdir()
        for jar in jars:
            shutil.copy(jar, context / "jars")
        yield context


@contextmanager
def _postgres(_tag: str) -> Iterator[Path]:
    binaries = installation()
    package, site_packages = binaries.parent, binaries.parents[1]
    with _context("postgres") as context:
        target = context / "postgresql"
        shutil.copytree(binaries, target / package.name / binaries.name, symlinks=True)
        shutil.copytree(site_packages / f"{package.name}.libs", target / f"{package.name}.libs", symlinks=True)
        yield context


@contextmanager
def _go_program(name: str, package: str, version: str) -> Iterator[Path]:
    binary = built(GoProgram(name, package, version))
    with _context(name) as context:
        shutil.copy(binary, context / binary.name)
        yield context


@contextmanager
def _collector(tag: str) -> Iterator[Path]:
    builder = built(GoProgram("otel-builder", "go.opentelemetry.io/collector/cmd/builder", tag))
    with _context("otel-collector") as context:
        if f"v{tag}" not in (context / "builder.yaml").read_text():
            raise SystemExit(f"builder.yaml isn't for the required collector version {tag}")
        subprocess.run([builder, "--config", "builder.yaml"], cwd=context, check=True)
        shutil.move(context / "build" / "otelcol", context / "otelcol")
        shutil.rmtree(context / "build")
        yield context


RECIPES: dict[str, Recipe] = {
    "python": lambda _: _context("python"),
    "kafka": _kafka,
    "postgres": _postgres,
    "weaviate": lambda tag: _go_program("weaviate", "github.com/weaviate/weaviate/cmd/weaviate-server", tag),
    "versitygw": lambda tag: _go_program(
        "versitygw", "github.com/versity/versitygw/cmd/versitygw", tag.removeprefix("v")
    ),
    "prometheus": lambda _: _context("prometheus"),
    "otel-collector": _collector,
}

_OTHER_NAMES = {"pgvector": "postgres", "opentelemetry-collector": "otel-collector"}


def wanted_images() -> dict[str, str]:
    """Returns image names by recipe, as in docker-compose.yml and the Dockerfile."""
    compose = yaml.safe_load((PROJECT_ROOT / "docker-compose.yml").read_text())
    images = {service["image"] for service in compose["services"].values() if "build" not in service}
    images.add(_python())
    found = {}
    for image in images:
        name = image.rpartition(":")[0].rpartition("/")[2]
        name = _OTHER_NAMES.get(name, name)
        if name in RECIPES:
            found[name] = image
    return found


def _python() -> str:
    default = re.search(r"^ARG PYTHON_IMAGE=(\S+)$", (PROJECT_ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert default is not None
    return default[1]
