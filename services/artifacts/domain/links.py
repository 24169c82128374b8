"""Signed links. A link gives access to one artifact until it expires, without a credential."""

import hmac
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from libs.contracts.errors import AuthenticationFailed
from libs.contracts.identifiers import is_id

_EXPIRES: Final = "expires"
_SIGNATURE: Final = "signature"
_PURPOSE: Final = b"links to artifacts"
LINK_LABEL: Final = "x-label"
"""The query parameter that contains the artifact's ID if an S3 server serves the link."""
Parameters = Sequence[tuple[str, str]]
"""The query parameters in order, including repeated ones."""


class LinkSigner:
    """Signs links and checks their signatures.

    A signature covers the artifact and every parameter. Links signed with a secret in ``accepted`` are valid, too.
    """

    def __init__(self, secret: str, *accepted: str) -> None:
        self._keys = [hmac.digest(one.encode(), _PURPOSE, "sha256") for one in (secret, *accepted)]

    def query(self, artifact_id: str, expires: int) -> str:
        """Returns the query of a signed link. ``expires`` is in Unix seconds."""
        parameters = [(_EXPIRES, str(expires))]
        return urlencode([*parameters, (_SIGNATURE, _signature(self._keys[0], artifact_id, parameters))])

    def check(self, artifact_id: str, parameters: Parameters, now: float) -> None:
        """Raises ``AuthenticationFailed`` if the link is invalid or has expired."""
        given = [value for name, value in parameters if name == _SIGNATURE]
        covered = [(name, value) for name, value in parameters if name != _SIGNATURE]
        expected = [_signature(key, artifact_id, covered).encode() for key in self._keys]
        if len(given) != 1 or not any(hmac.compare_digest(given[0].encode(), one) for one in expected):
            raise AuthenticationFailed("The link was changed or is for another artifact. Request a new one.")
        expires = dict(covered).get(_EXPIRES, "")
        if not expires.isdigit() or int(expires) <= now:
            raise AuthenticationFailed("The link has expired. Request a new one.")


def _signature(key: bytes, artifact_id: str, parameters: Parameters) -> str:
    signed = "\n".join([artifact_id, *sorted(urlencode([pair]) for pair in parameters)])
    return hmac.new(key, signed.encode(), sha256).hexdigest()


def link_path(artifact_id: str) -> str:
    """Returns the path of a link that this service serves."""
    return f"/api/v1/artifacts/{artifact_id}/content/"


def artifact_of(url: str) -> str | None:
    """Returns the ID of the artifact that a link refers to, even if the link has expired."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    found = re.search(r"/artifacts/([0-9a-f-]{36})/content/\Z", unquote(parts.path))
    artifact_id = found[1] if found else dict(parse_qsl(parts.query)).get(LINK_LABEL, "")
    return artifact_id if is_id(artifact_id) else None
