"""Downloads Apache Kafka's JAR files, which `kafka_jars.txt` pins by hash, from a Maven repository.

`python -m deploy.local.kafka_jars` resolves the coordinates below again and rewrites the list.
"""

import asyncio
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local.errors import StackError
from deploy.local.files import check_disk
from deploy.local.managed_process import Report
from libs.retry import RetryPolicy

KAFKA_VERSION = "4.1.0"
COORDINATES = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}+org.slf4j:slf4j-simple:2.0.17"
_LIST = Path(__file__).with_name("kafka_jars.txt")
_NEEDED_BYTES = 150 * 1024 * 1024
_AT_ONCE = 6
_RETRIES = RetryPolicy(first=2.0, attempts=3)
_ANSWER_SECONDS = 60
_PARTIAL = "partial-kafka-"
_ABANDONED_SECONDS = 3600


@dataclass(frozen=True)
class Jar:
    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


def installed_jars(cache: Path) -> list[Path] | None:
    """Returns the JAR files that an earlier start downloaded, or None if a file is missing."""
    paths = [_directory(cache) / jar.file for jar in _pinned()]
    return paths if all(path.exists() for path in paths) else None


def fetch_jars(cache: Path, report: Report) -> list[Path]:
    """Downloads the pinned JAR files (45 MB), all or none, and returns their paths."""
    check_disk(cache, _NEEDED_BYTES)
    jars, complete = _pinned(), _directory(cache)
    _remove_abandoned(cache)
    with tempfile.TemporaryDirectory(dir=cache, prefix=_PARTIAL) as temporary:
        partial = Path(temporary, "jars")
        partial.mkdir()
        maven = _maven(Path(temporary, "maven"))
        with _certificates(), ThreadPoolExecutor(_AT_ONCE) as executor:
            downloads = [executor.submit(_fetch, maven, jar, partial) for jar in jars]
            try:
                for number, download in enumerate(as_completed(downloads), start=1):
                    download.result()
                    report(f"downloading Apache Kafka {KAFKA_VERSION}: {number} of {len(jars)} files")
            except BaseException:
                executor.shutdown(cancel_futures=True)
                raise
        shutil.rmtree(complete, ignore_errors=True)
        partial.rename(complete)
    return [complete / jar.file for jar in jars]


def _remove_abandoned(cache: Path) -> None:
    """Removes old downloads that killed starts left behind.

    Recent downloads are kept, because another process may be writing them.
    """
    for partial in cache.glob(f"{_PARTIAL}*"):
        if time.time() - partial.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(partial, ignore_errors=True)


def _fetch(maven: Any, jar: Jar, directory: Path) -> None:
    async def once() -> None:
        _fetch_once(maven, jar, directory)

    asyncio.run(_RETRIES.run(once, on=StackError))


def _fetch_once(maven: Any, jar: Jar, directory: Path) -> None:
    try:
        downloaded = Path(maven.project(jar.group, jar.name).at_version(jar.version).artifact().resolve())
    except Exception as error:
        raise StackError(
            f"Apache Kafka {KAFKA_VERSION} couldn't be downloaded ({jar.file}): {error}",
            "The first start downloads Kafka from a Maven repository. Check the connection and the proxy (HTTPS_PROXY; "
            "SSL_CERT_FILE for a private CA), or set AES_MAVEN_REPOSITORY to a mirror. Then run the command again.",
        ) from error
    if _sha256(downloaded) != jar.sha256:
        # The next attempt would trust the broken file.
        downloaded.unlink()
        raise StackError(
            f"The SHA-256 of the downloaded {jar.file} differs from kafka_jars.txt.",
            "Run the command again. If this persists, the repository or a proxy modifies files.",
        )
    shutil.move(downloaded, directory / jar.file)


def _maven(repository: Path) -> Any:
    # Imported late, since only the first start downloads anything.
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext

    # A separate repository, because a killed download leaves a broken file that later downloads would trust.
    mirror = os.environ.get("AES_MAVEN_REPOSITORY", MAVEN_CENTRAL_URL)
    return MavenContext(repo_cache=repository, remote_repos={"central": mirror.rstrip("/")}, timeout=_ANSWER_SECONDS)


@contextmanager
def _certificates() -> Iterator[None]:
    """Makes downloads trust the same CA certificates as pip."""
    if "REQUESTS_CA_BUNDLE" in os.environ or "CURL_CA_BUNDLE" in os.environ:
        yield
        return
    settings = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    of_pip = re.findall(r"^\S+\.cert='(.+)'$", settings, re.MULTILINE)
    given = [*of_pip, os.environ.get("SSL_CERT_FILE", "")][0]
    if given:
        os.environ["REQUESTS_CA_BUNDLE"] = given
    try:
        yield
    finally:
        os.environ.pop("REQUESTS_CA_BUNDLE", None)


def _directory(cache: Path) -> Path:
    return cache / f"kafka-{KAFKA_VERSION}"


def _pinned() -> list[Jar]:
    return [Jar(*line.split()) for line in _LIST.read_text().splitlines() if line]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _repin() -> None:
    import jgo

    lines = []
    for artifact in jgo.resolve(COORDINATES):
        digest = _sha256(Path(artifact.resolve()))
        lines.append(f"{artifact.groupId} {artifact.artifactId} {artifact.version} {digest}\n")
    _LIST.write_text("".join(sorted(lines)))
    print(f"{len(lines)} jars pinned in {_LIST}", file=sys.stderr)


if __name__ == "__main__":
    _repin()
