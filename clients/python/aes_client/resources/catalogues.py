"""Catalogues: models and tools that agents can be built from."""

from __future__ import annotations

from typing import Any

from aes_client.flows import Emitting
from aes_client.resource import R, Resource, iteration


class Catalogues(Resource[R]):
    @iteration
    def models(self) -> Emitting[dict[str, Any]]:
        """Yields the models of the providers that are configured."""
        yield from self._pages("/models/", "models", dict[str, Any], {})

    @iteration
    def tools(self) -> Emitting[dict[str, Any]]:
        """Yields the built-in tools, then those of the company's toolsets."""
        yield from self._pages("/tools/", "tools", dict[str, Any], {})
