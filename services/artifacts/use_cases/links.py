"""Creates temporary links to artifacts. They work without a credential."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from libs.blobs import original_key
from libs.blobs.downloads import disposition
from libs.contracts.resources.artifacts import Artifact, ArtifactUrl
from libs.contracts.timestamps import format_time
from libs.objects import ObjectStore
from services.artifacts.domain.artifacts import StoredArtifact
from services.artifacts.domain.links import LinkSigner, link_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Creates links to the object store, or to the gateway if callers can't reach the store over HTTP.

    ``public_url`` is the gateway's URL. ``seconds`` is how long links are valid.
    """

    store: ObjectStore
    signer: LinkSigner
    public_url: str
    seconds: int

    def link(self, artifact: StoredArtifact) -> ArtifactUrl:
        expires = datetime.now(UTC) + timedelta(seconds=self.seconds)
        url = self.store.link(
            original_key(artifact.blob_id),
            seconds=self.seconds,
            label=artifact.id,
            content_type=artifact.content_type,
            disposition=disposition(artifact.name, inline=False),
        )
        if url is None:
            query = self.signer.query(artifact.id, int(expires.timestamp()))
            url = f"{self.public_url.rstrip('/')}{link_path(artifact.id)}?{query}"
        return ArtifactUrl(url=url, expires_at=format_time(expires))

    def public(self, artifact: StoredArtifact) -> Artifact:
        """Returns the artifact as callers see it, with a new link."""
        link = self.link(artifact)
        return Artifact(**artifact.record().model_dump(), url=link.url, url_expires_at=link.expires_at)
