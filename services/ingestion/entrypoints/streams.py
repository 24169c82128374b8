"""Faust application that takes work in batches from ``ingestion-work``.

The database says which work is done; messages only point to it, since Faust acknowledges a batch whether or not its
handler succeeded.
"""

import asyncio
import contextlib
import logging
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import faust
import structlog
from faust.streams import Stream
from faust.types import EventT, StreamT
from faust.types.auth import CredentialsT

from libs.contracts.topics import INGESTION_WORK
from libs.eventing import KafkaConnection, member_client_id, set_lag
from libs.fairness import FairSemaphore
from libs.persistence import is_outage
from services.ingestion.domain.runs import ItemKey, RunKey, decode_work
from services.ingestion.entrypoints.watchdog import end_process

Work = TypeVar("Work")
_log = structlog.get_logger(__name__)
_WITHIN_SECONDS: Final = 0.02
_STOP_SECONDS: Final = 3.0
_MEASURE_SECONDS: Final = 5.0
_BROKER_SECONDS: Final = 0.1
# Work that a killed process had read waits for the reconciler, so it is not all of a partition.
_BATCHES_AHEAD: Final = 32
_COMPANY: Final = "ce_companyid"
GROUP: Final = "ingestion-worker"


class IngestionStreams:
    def __init__(
        self,
        *,
        kafka: KafkaConnection,
        prefix: str,
        process: int,
        items: Callable[[Sequence[ItemKey]], Awaitable[None]],
        run: Callable[[RunKey], Awaitable[None]],
        batch: int,
        batches: int,
        broker_answers: Callable[[], bool] = lambda: True,
        end: Callable[[], None] = end_process,
    ) -> None:
        """Handles up to ``batches`` batches of a company at once, of up to ``batch`` messages each, so that one is
        parsed while another is written; one more is for a company beside it. ``process`` is the number of this process
        in its group.

        Messages are read ahead, so that those of a company are found behind those of another.
        """
        self._items = items
        self._run = run
        self._batch = batch
        self._permits = FairSemaphore(batches + 1, each=batches)
        self._ahead = asyncio.Semaphore(batches + _BATCHES_AHEAD)
        self._working: set[asyncio.Task[None]] = set()
        self._waiting: set[ItemKey] = set()
        self._broker_answers = broker_answers
        self._end = end
        self._stopping = False
        self.joined = False
        self.app = _application(kafka, prefix, process)
        self.app.on_partitions_assigned.connect(self._assigned)
        topic = self.app.topic(prefix + INGESTION_WORK.name, value_serializer="raw", key_serializer="raw")
        self.app.agent(topic, name=f"{prefix}ingestion.work")(self._take)

    def waiting(self) -> list[ItemKey]:
        """Items that were read and are not begun yet."""
        return list(self._waiting)

    async def serve(self) -> None:
        """Runs from when a broker answers until stopped. Ends the process when Faust ends by itself."""
        # Faust ends at once when no broker answers, but processes start beside their broker.
        while self._stopping or not self._broker_answers():
            await asyncio.sleep(_BROKER_SECONDS)
        try:
            await self.app.start()
            # Faust creates the directory and keeps nothing in it; each process would leave one behind.
            shutil.rmtree(self.app.conf.datadir, ignore_errors=True)
            await self.app.wait_until_stopped()
        except Exception as problem:
            _log.critical("streams.failed", problem=repr(problem))
            self._end()
        if not self._stopping:
            _log.critical("streams.ended", problem=repr(self.app.crash_reason))
            self._end()
        await asyncio.Event().wait()

    async def measure(self) -> None:
        """Sets the gauge of consumer lag every few seconds, until cancelled."""
        monitor = self.app.monitor
        while True:
            if self.joined:
                # Unlike the monitor's, these offsets are known before the first acknowledgement.
                consumer: Any = self.app.consumer
                set_lag(GROUP, INGESTION_WORK.name, lag(monitor.tp_end_offsets, consumer._committed_offset))
            await asyncio.sleep(_MEASURE_SECONDS)

    async def stop(self) -> None:
        """Stops taking messages and waits seconds for running batches; other workers redo what does not end."""
        self._stopping = True
        # They are for other workers.
        self._waiting.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self.app.stop()
        if self._working:
            await asyncio.wait(set(self._working), timeout=_STOP_SECONDS)
        for task in set(self._working):
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)

    async def _assigned(self, *_: Any, **__: Any) -> None:
        self.joined = True
        _log.info("streams.assigned", partitions=len(self.app.consumer.assignment()))

    async def _take(self, stream: StreamT[bytes]) -> None:
        # The interface that it is declared by knows no events.
        assert isinstance(stream, Stream)
        read: asyncio.Queue[EventT[bytes]] = asyncio.Queue(self._batch)
        # Faust's own batches wake the process twenty times a second while there is nothing to take.
        async with asyncio.TaskGroup() as group:
            submitting = group.create_task(self._submit_batches(read))
            async for event in stream.events():
                await read.put(event)
            submitting.cancel()

    async def _submit_batches(self, read: "asyncio.Queue[EventT[bytes]]") -> None:
        while True:
            events = [await read.get()]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WITHIN_SECONDS):
                    while len(events) < self._batch:
                        events.append(await read.get())
            await self._submit(events)

    async def _submit(self, events: Sequence[EventT[bytes]]) -> None:
        by_company: dict[str, dict[ItemKey | RunKey, None]] = {}
        for event in events:
            keys = decode_work(event.value)
            by_company.setdefault(_company_of(event.headers), {}).update(dict.fromkeys(keys))
        for company_id, given in by_company.items():
            for run in [key for key in given if isinstance(key, RunKey)]:
                await self._spawn(company_id, self._run, run)
            # Sent twice, they would take places that messages of other companies are read ahead into.
            if items := [key for key in given if isinstance(key, ItemKey) and key not in self._waiting]:
                await self._spawn(company_id, self._begin, items)
                self._waiting.update(() if self._stopping else items)

    async def _begin(self, keys: Sequence[ItemKey]) -> None:
        # From now on they may be put off and sent again.
        self._waiting.difference_update(keys)
        await self._items(keys)

    async def _spawn(self, company_id: str, work: Callable[[Work], Awaitable[None]], keys: Work) -> None:
        await self._ahead.acquire()
        task = asyncio.create_task(self._guarded(company_id, work, keys))
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def _guarded(self, company_id: str, work: Callable[[Work], Awaitable[None]], keys: Work) -> None:
        try:
            async with self._permits.acquire(company_id):
                await work(keys)
        except Exception as problem:
            # The leases expire, and the reconciler sends the work again.
            if is_outage(problem):
                _log.warning("streams.outage", problem=str(problem).strip())
            else:
                _log.exception("streams.work_failed")
        finally:
            self._ahead.release()


def _company_of(headers: Mapping[str, bytes] | Sequence[tuple[str, bytes]] | None) -> str:
    """Empty for a message that does not say it."""
    return dict(headers or ()).get(_COMPANY, b"").decode(errors="replace")


def lag(ends: Mapping[Any, int], committed: Mapping[Any, int | None]) -> int:
    """Number of unacknowledged messages, from end and committed offsets by partition.

    A group without a committed offset begins at the start.
    """
    return sum(max(end - max(committed.get(place) or 0, 0), 0) for place, end in ends.items())


def _credentials(kafka: KafkaConnection) -> CredentialsT | None:
    if kafka.authenticated:
        return faust.SASLCredentials(
            username=kafka.username, password=kafka.password, ssl_context=kafka.tls, mechanism=kafka.sasl_mechanism
        )
    return faust.SSLCredentials(kafka.tls) if kafka.encrypted else None


def _application(kafka: KafkaConnection, prefix: str, process: int) -> faust.App:
    # They log every component that starts.
    for library in ("faust", "mode"):
        logging.getLogger(library).setLevel(logging.WARNING)
    return faust.App(
        f"{prefix}{GROUP}",
        broker=[f"aiokafka://{server.strip()}" for server in kafka.servers.split(",")],
        broker_credentials=_credentials(kafka),
        store="memory://",
        datadir=tempfile.mkdtemp(prefix="aes-faust-"),
        autodiscover=False,
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        consumer_auto_offset_reset="earliest",
        # A joining worker cannot help with messages that another has fetched ahead.
        stream_buffer_maxsize=256,
        broker_max_poll_records=200,
        stream_wait_empty=False,
        broker_session_timeout=10.0,
        broker_heartbeat_interval=1.0,
        broker_client_id=member_client_id("aes-ingestion-worker", process),
    )
