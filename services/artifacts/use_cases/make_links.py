"""Links to artifacts that work for anybody, for a while."""

from collections.abc import Callable
from datetime import datetime, timedelta

from libs.contracts.api.artifacts import Artifact, ArtifactUrl
from libs.contracts.timestamps import format_time
from libs.objects import ObjectStore
from libs.service_defaults.downloads import disposition
from services.artifacts.domain.artifacts import StoredArtifact, original_key
from services.artifacts.domain.links import LinkSigner, link_path


class Links:
    """Signed by the object store where it is reached over HTTP, else by this service.

    ``public_url``: where callers reach the gateway. ``seconds``: how long links work.
    """

    def __init__(
        self, store: ObjectStore, signer: LinkSigner, now: Callable[[], datetime], *, public_url: str, seconds: int
    ) -> None:
        self._store = store
        self._signer = signer
        self._now = now
        self._public_url = public_url.rstrip("/")
        self._seconds = seconds

    def link(self, artifact: StoredArtifact) -> ArtifactUrl:
        expires = self._now() + timedelta(seconds=self._seconds)
        url = self._store.link(
            original_key(artifact.id),
            seconds=self._seconds,
            content_type=artifact.content_type,
            disposition=disposition(artifact.name, inline=False),
        )
        if url is None:
            query = self._signer.query(artifact.id, int(expires.timestamp()))
            url = f"{self._public_url}{link_path(artifact.id)}?{query}"
        return ArtifactUrl(url=url, expires_at=format_time(expires))

    def public(self, artifact: StoredArtifact) -> Artifact:
        """The artifact as callers see it, with a fresh link."""
        link = self.link(artifact)
        return Artifact(**artifact.record().model_dump(), url=link.url, url_expires_at=link.expires_at)
