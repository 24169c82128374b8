"""The use cases of sessions."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from libs.eventing import Transaction
from services.runtime.domain.sessions import SessionWriter

Begin = Callable[[], AbstractAsyncContextManager[Transaction]]
OpenWriter = Callable[[Transaction], SessionWriter]
