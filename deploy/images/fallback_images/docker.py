"""Runs Docker commands for the fallback images."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

LABEL = "org.opencontainers.image.description"
DESCRIPTION = "A fallback image built from packages, not the original image of this name"
DEBIAN = "aes-stand-in/debian:bookworm"
_CERTIFICATES = Path("etc/ssl/certs/ca-certificates.crt")


def exists(image: str) -> bool:
    command = ["docker", "image", "inspect", "--format", "{{.Id}}", image]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def ensure_debian() -> None:
    """Builds the minimal Debian image that all fallback images are based on, unless it exists.

    This takes about a minute.
    """
    if exists(DEBIAN):
        return
    with tempfile.TemporaryDirectory(prefix="aes-debian-") as temporary:
        tree = Path(temporary, "tree")
        subprocess.run(
            ["debootstrap", "--variant=minbase", "--include=ca-certificates,wget", "bookworm", str(tree)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        environment = {}
        # The machine's CA bundle may include a proxy's certificate, which the image needs, too.
        bundle = Path(os.environ.get("SSL_CERT_FILE", f"/{_CERTIFICATES}"))
        if bundle.exists():
            shutil.copyfile(bundle, tree / _CERTIFICATES)
            environment = dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE"), f"/{_CERTIFICATES}")
        for cached in (tree / "var/cache/apt/archives").glob("*.deb"):
            cached.unlink()
        _import_tree(DEBIAN, tree, environment)


def build(image: str, context: Path) -> None:
    """Builds an image. Raises CalledProcessError after Docker has printed the reason."""
    options = ["--quiet", "--network=host", f"--label={LABEL}={DESCRIPTION}", f"--tag={image}"]
    # Every engine and client includes the classic builder.
    subprocess.run(["docker", "build", *options, str(context)], check=True, env={**os.environ, "DOCKER_BUILDKIT": "0"})


def _import_tree(image: str, tree: Path, environment: dict[str, str]) -> None:
    """Imports a directory tree as a single-layer image."""
    changes = [f"--change=ENV {name}={value}" for name, value in environment.items()]
    with subprocess.Popen(["tar", "-C", str(tree), "-c", "."], stdout=subprocess.PIPE) as archive:
        subprocess.run(
            ["docker", "import", *changes, "-", image], stdin=archive.stdout, stdout=subprocess.DEVNULL, check=True
        )
    if archive.returncode != 0:
        raise subprocess.CalledProcessError(archive.returncode, archive.args)
