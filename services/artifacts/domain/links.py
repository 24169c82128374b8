"""Signed links. Each gives access to one artifact, without a credential, until it expires."""

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
"""Parameter of an S3 server's link that contains its label."""
Parameters = Sequence[tuple[str, str]]
"""Query parameters in order, including repetitions."""


class LinkSigner:
    """Signs and checks links.

    The signature covers the artifact and every parameter, so none can be changed, added or removed. Links signed with a
    secret in ``accepted`` (the next and previous secrets) are valid, too.
    """

    def __init__(self, secret: str, *accepted: str) -> None:
        self._keys = [hmac.digest(one.encode(), _PURPOSE, "sha256") for one in (secret, *accepted)]

    def query(self, artifact_id: str, expires: int) -> str:
        """Returns a link's query. ``expires`` is in seconds since 1970."""
        parameters = [(_EXPIRES, str(expires))]
        return urlencode([*parameters, (_SIGNATURE, _signature(self._keys[0], artifact_id, parameters))])

    def check(self, artifact_id: str, parameters: Parameters, now: float) -> None:
        """Raises ``AuthenticationFailed`` if the link is invalid or has expired."""
        given = [value for name, value in parameters if name == _SIGNATURE]
        covered = [(name, value) for name, value in parameters if name != _SIGNATURE]
        expected = [_signature(key, artifact_id, covered).encode() for key in self._keys]
        if len(given) != 1 or not any(hmac.compare_digest(given[0].encode(), one) for one in expected):
            raise AuthenticationFailed("Invalid link. It was changed or is for another artifact.")
        expires = dict(covered).get(_EXPIRES, "")
        if not expires.isdigit() or int(expires) <= now:
            raise AuthenticationFailed("The link has expired. Request a new one.")


def _signature(key: bytes, artifact_id: str, parameters: Parameters) -> str:
    signed = "\n".join([artifact_id, *sorted(urlencode([pair]) for pair in parameters)])
    return hmac.new(key, signed.encode(), sha256).hexdigest()


def link_path(artifact_id: str) -> str:
    """Returns the path, below the public address, of a link served by this service."""
    return f"/api/v1/artifacts/{artifact_id}/content/"


def artifact_of(url: str) -> str | None:
    """Returns the artifact's ID from a link, even an expired one.

    The ID is in the path, or in the label if the object store serves the link.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    found = re.search(r"/artifacts/([0-9a-f-]{36})/content/\Z", unquote(parts.path))
    artifact_id = found[1] if found else dict(parse_qsl(parts.query)).get(LINK_LABEL, "")
    return artifact_id if is_id(artifact_id) else None
