"""Credentials: API keys, tokens, public keys, and the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aes_client.flows import Emitting
from aes_client.models import Connection, IssuedKeyReply, Key, Me, TokenReply
from aes_client.requests import Request, nothing, one, path_of
from aes_client.resource import R, Resource, iteration, operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from aes_client import params


class ApiKeys(Resource[R]):
    """``client.api_keys``."""

    @operation
    def create(self, **key: Unpack[params.CreateKeyBody]) -> Request[IssuedKeyReply]:
        """Makes a key; its ``secret`` is shown this once."""
        return Request("POST", "/api-keys/", one(IssuedKeyReply), body=dict(key))

    @iteration
    def list(self) -> Emitting[Key]:
        """Yields keys, newest first, without their secrets."""
        yield from self._pages("/api-keys/", "api_keys", Key, {})

    @operation
    def rotate(self, key_id: str, **rotation: Unpack[params.RotateKeyBody]) -> Request[IssuedKeyReply]:
        """Makes a successor; both are valid for a grace period."""
        return Request("POST", path_of("/api-keys/{key}/rotate/", key=key_id), one(IssuedKeyReply), body=dict(rotation))

    @operation
    def revoke(self, key_id: str) -> Request[None]:
        """Ends a key at once, together with the streams that it has open."""
        return Request("DELETE", path_of("/api-keys/{key}/", key=key_id), nothing, repeat="gone_is_done")


class Tokens(Resource[R]):
    """``client.tokens``."""

    @operation
    def create(self, **token: Unpack[params.TokenBody]) -> Request[TokenReply]:
        """Makes a bearer token of at most one hour, for ``Client(token=…)``."""
        return Request("POST", "/auth/token/", one(TokenReply), body=dict(token))


class Connections(Resource[R]):
    """``client.connections``: public keys for web pages."""

    @operation
    def create(self, **connection: Unpack[params.CreateConnectionBody]) -> Request[Connection]:
        return Request("POST", "/connections/", one(Connection), body=dict(connection))

    @operation
    def get(self, connection_id: str) -> Request[Connection]:
        return Request("GET", path_of("/connections/{connection}/", connection=connection_id), one(Connection))

    @iteration
    def list(self) -> Emitting[Connection]:
        """Yields connections, newest first."""
        yield from self._pages("/connections/", "connections", Connection, {})

    @operation
    def delete(self, connection_id: str) -> Request[None]:
        """Ends a public key at once. Sessions stay."""
        path = path_of("/connections/{connection}/", connection=connection_id)
        return Request("DELETE", path, nothing, repeat="gone_is_done")


class Access(Resource[R]):
    """The caller."""

    @operation
    def me(self) -> Request[Me]:
        """Returns whose credential this is, with its scopes and limits."""
        return Request("GET", "/me/", one(Me))
