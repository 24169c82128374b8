"""Builds the minimal Debian image that all fallback images are based on."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from deploy.images.fallback_images.docker import exists, import_tree

IMAGE = "aes-stand-in/debian:bookworm"
_CERTIFICATES = Path("etc/ssl/certs/ca-certificates.crt")


def ensure() -> None:
    """Builds the base image unless it exists. This takes about a minute."""
    if exists(IMAGE):
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
        import_tree(IMAGE, tree, environment)
