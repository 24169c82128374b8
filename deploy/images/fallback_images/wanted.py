"""Reads the names of the images from the files that use them, so that they cannot differ."""

import re

import yaml

from deploy.images.fallback_images.recipes import RECIPES
from deploy.local.home import PROJECT_ROOT

_OTHER_NAMES = {"pgvector": "postgres", "opentelemetry-collector": "otel-collector"}


def wanted_images() -> dict[str, str]:
    """Image by recipe."""
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
