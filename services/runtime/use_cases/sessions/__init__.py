"""The use cases of sessions: creation, changes, deletion and expiry."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from libs.eventing import Transaction
from services.runtime.domain.sessions import SessionWriter

Begin = Callable[[], AbstractAsyncContextManager[Transaction]]
OpenWriter = Callable[[Transaction], SessionWriter]
