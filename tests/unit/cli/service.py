"""A service for tests of commands: what `aes` asks for is answered by a function."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, get_origin, get_type_hints

import httpx
import pytest
from aes_client.models import Model

_VALUES: dict[Any, Any] = {str: "x", int: 0, float: 0.0, bool: True, list: [], dict: {}}
_MOMENT = "2030-01-01T00:00:00.000000Z"


def document(model: type[Model], **fields: Any) -> dict[str, Any]:
    """An answer of the service: these fields, and something for every other one that the model requires."""
    hints = get_type_hints(model)
    required = {
        field.alias or name: _something(hints[name])
        for name, field in model.model_fields.items()
        if field.is_required()
    }
    return required | fields


def _something(kind: Any) -> Any:
    if kind is datetime:
        return _MOMENT
    kind = get_origin(kind) or kind
    if isinstance(kind, type) and issubclass(kind, Model):
        return document(kind)
    return _VALUES.get(kind)


def serve(monkeypatch: pytest.MonkeyPatch, answer: Callable[[httpx.Request], httpx.Response]) -> list[float]:
    """Has commands find that service; returns the pauses between their attempts, which none of them waits for."""
    pauses: list[float] = []
    transport = httpx.MockTransport(answer)
    monkeypatch.setattr("cli.api.HttpClient", partial(httpx.Client, transport=transport))
    monkeypatch.setattr("aes_client.runners.time.sleep", pauses.append)
    monkeypatch.setenv("AES_BASE_URL", "http://service")
    monkeypatch.setenv("AES_API_KEY", "aes_key")
    return pauses
