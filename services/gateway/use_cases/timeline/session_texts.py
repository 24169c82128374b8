"""Hands the texts of turns, which come over the bus alone, to the readers of their sessions in this replica."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import orjson

from libs.contracts.messages import Envelope, Received
from services.gateway.use_cases.timeline.feed_reader import FeedReader


class SessionTexts:
    def __init__(self) -> None:
        self._readers: defaultdict[str, defaultdict[str, set[FeedReader]]] = defaultdict(lambda: defaultdict(set))

    def hear(self, envelope: Envelope, payload: bytes) -> None:
        """Takes a piece of text from the bus. Payloads of companies without readers here are not looked at."""
        sessions = self._readers.get(envelope.company_id)
        if sessions is None:
            return
        readers = sessions.get(orjson.loads(payload)["session_id"], ())
        now = asyncio.get_running_loop().time()
        for reader in readers:
            reader.offer((Received(envelope, payload),), now)
            reader.wake()

    @contextmanager
    def joined(self, reader: FeedReader, company_id: str, session_id: str) -> Iterator[None]:
        """While the reader gets the texts of that session as well."""
        self._readers[company_id][session_id].add(reader)
        try:
            yield
        finally:
            sessions = self._readers[company_id]
            sessions[session_id].discard(reader)
            if not sessions[session_id]:
                del sessions[session_id]
            if not sessions:
                del self._readers[company_id]
