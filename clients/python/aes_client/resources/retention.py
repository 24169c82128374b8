"""Retention: how long the company keeps its sessions."""

from __future__ import annotations

from aes_client import models
from aes_client.requests import Request, one
from aes_client.resource import R, Resource, operation


class Retention(Resource[R]):
    """``client.retention``."""

    @operation
    def get(self) -> Request[models.Retention]:
        return Request("GET", "/retention/", one(models.Retention))

    @operation
    def set(self, session_retention_days: int | None) -> Request[models.Retention]:
        """Has sessions without a turn for so many days deleted; with None the installation's default holds."""
        body = {"session_retention_days": session_retention_days}
        return Request("PUT", "/retention/", one(models.Retention), body=body)
