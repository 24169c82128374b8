"""Runs Docker commands for the fallback images."""

import os
import subprocess
from pathlib import Path

LABEL = "org.opencontainers.image.description"
DESCRIPTION = "A fallback image built from packages, not the original image of this name"


def exists(image: str) -> bool:
    command = ["docker", "image", "inspect", "--format", "{{.Id}}", image]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def build(image: str, context: Path) -> None:
    """Builds an image. Raises CalledProcessError after Docker has printed the reason."""
    command = [
        "docker",
        "build",
        "--quiet",
        "--network=host",
        "--label",
        f"{LABEL}={DESCRIPTION}",
        "--tag",
        image,
        str(context),
    ]
    # Every engine and client includes the classic builder.
    subprocess.run(command, check=True, env={**os.environ, "DOCKER_BUILDKIT": "0"})


def import_tree(image: str, tree: Path, environment: dict[str, str]) -> None:
    """Imports a directory tree as a single-layer image."""
    changes = [f"--change=ENV {name}={value}" for name, value in environment.items()]
    with subprocess.Popen(["tar", "-C", str(tree), "-c", "."], stdout=subprocess.PIPE) as archive:
        subprocess.run(
            ["docker", "import", *changes, "-", image], stdin=archive.stdout, stdout=subprocess.DEVNULL, check=True
        )
    if archive.returncode != 0:
        raise subprocess.CalledProcessError(archive.returncode, archive.args)
