"""Fetches Apache Kafka's jars from Maven and remembers where they are."""

import json
import os
import shutil
from pathlib import Path

from deploy.local.errors import StackError
from deploy.local.files import read_json, write_atomically

KAFKA_VERSION = "4.1.0"
_COORDINATES = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}+org.slf4j:slf4j-simple:2.0.17"
_NEEDED_BYTES = 200 * 1024 * 1024


def installed_jars(cache: Path) -> list[Path] | None:
    """The jars that an earlier run fetched, or None when any of them is missing."""
    record = read_json(_record(cache))
    if record.get("coordinates") != _COORDINATES:
        return None
    jars = [Path(jar) for jar in record.get("jars", [])]
    return jars if jars and all(jar.exists() for jar in jars) else None


def fetch_jars(cache: Path) -> list[Path]:
    """Resolve and download the jars. Takes from seconds to a minute and needs a network; safe to repeat."""
    check_disk(cache, _NEEDED_BYTES)
    mirror = os.environ.get("AES_MAVEN_REPOSITORY")
    try:
        import jgo

        environment = jgo.build(
            _COORDINATES,
            cache_dir=cache / "jars",
            repositories={"central": mirror} if mirror else None,
        )
    except Exception as error:
        raise StackError(
            f"Apache Kafka {KAFKA_VERSION} could not be downloaded: {error}",
            "The first start needs a network that reaches a Maven repository. Check the connection or the proxy\n"
            "(HTTPS_PROXY), or name a mirror in AES_MAVEN_REPOSITORY, and run the command again.",
        ) from error
    jars = sorted(environment.all_jars)
    write_atomically(
        _record(cache), json.dumps({"coordinates": _COORDINATES, "jars": [str(jar) for jar in jars]}, indent=1)
    )
    return jars


def check_disk(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise StackError(
            f"Not enough disk space in {directory}: {free // 2**20} MiB free, {needed // 2**20} MiB needed.",
            "Free some space, or set AES_HOME to a directory on a larger disk.",
        )


def _record(cache: Path) -> Path:
    return cache / f"kafka-{KAFKA_VERSION}.json"
