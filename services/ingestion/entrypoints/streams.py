"""The Faust application that handles the messages of ``ingestion-work``.

Faust may commit an offset although an earlier message is still in progress. This is harmless, because work that isn't
finished in the database is sent again.
"""

import asyncio
import contextlib
import logging
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import faust
import structlog
from faust.streams import Stream
from faust.types import EventT, StreamT
from faust.types.auth import CredentialsT

from libs.contracts.errors import StoreUnavailable
from libs.contracts.topics import INGESTION_WORK
from libs.eventing import KafkaConnection
from libs.eventing.lag import set_lag
from libs.fairness import FairSemaphore
from services.ingestion.domain.runs import ItemKey, RunKey, WorkKey, decode_work
from services.ingestion.entrypoints.watchdog import end_process

_log = structlog.get_logger(__name__)
_STOP_SECONDS: Final = 3.0
_MEASURE_SECONDS: Final = 5.0
_BROKER_SECONDS: Final = 0.1
_LONGEST_SECONDS: Final = 86_400.0
# One company's waiting messages may occupy most actors. The number is high enough to leave some for other companies.
_ACTORS: Final = 128
_COMPANY: Final = "ce_companyid"
GROUP: Final = "ingestion-worker"


class IngestionStreams:
    def __init__(
        self,
        *,
        kafka: KafkaConnection,
        prefix: str,
        member_id: str,
        items: Callable[[Sequence[ItemKey]], Awaitable[None]],
        run: Callable[[RunKey], Awaitable[None]],
        batches: int,
        broker_answers: Callable[[], bool] = lambda: True,
        end: Callable[[], None] = end_process,
    ) -> None:
        """Creates the application.

        ``batches`` is the maximum number of a company's messages that are handled at once. One more message can be
        handled for other companies. ``member_id`` is the client ID in the consumer group.
        """
        self._items = items
        self._run = run
        self._permits = FairSemaphore(batches + 1, each=batches)
        self._waiting: set[WorkKey] = set()
        self._working: set[asyncio.Task[None]] = set()
        self._broker_answers = broker_answers
        self._end = end
        self._stopping = False
        self.joined = False
        self.app = _application(kafka, prefix, member_id)
        self.app.on_partitions_assigned.connect(self._assigned)
        topic = self.app.topic(prefix + INGESTION_WORK.name, value_serializer="raw", key_serializer="raw")
        self.app.agent(topic, name=f"{prefix}ingestion.work", concurrency=_ACTORS)(self._act)

    async def serve(self) -> None:
        """Runs from the broker's first response until stopped. Exits the process if Faust stops on its own."""
        # Wait for the broker, which may start at the same time: without one, Faust ends immediately.
        while self._stopping or not self._broker_answers():
            await asyncio.sleep(_BROKER_SECONDS)
        try:
            await self.app.start()
            # Faust creates a directory that it doesn't use, and each process would leave one behind.
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
        """Updates the consumer lag gauge every few seconds, until cancelled."""
        monitor = self.app.monitor
        while True:
            if self.joined:
                unread = lag(monitor.tp_end_offsets, monitor.tp_read_offsets)
                set_lag(GROUP, INGESTION_WORK.name, unread + len(self.app.consumer.unacked))
            await asyncio.sleep(_MEASURE_SECONDS)

    async def stop(self) -> None:
        """Stops accepting work and waits a few seconds for running work. The rest is redelivered to other workers."""
        self._stopping = True
        if self._working:
            await asyncio.wait(set(self._working), timeout=_STOP_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self.app.stop()

    async def _assigned(self, *_: Any, **__: Any) -> None:
        self.joined = True
        _log.info("streams.assigned", partitions=len(self.app.consumer.assignment()))

    async def _act(self, stream: StreamT[bytes]) -> None:
        # The declared interface lacks manual acknowledgement.
        assert isinstance(stream, Stream)
        unacknowledged = stream.noack()
        async for event in unacknowledged.events():
            await self._handle(event)
            await unacknowledged.ack(event)

    async def _handle(self, event: EventT[bytes]) -> None:
        # Skip work that was sent again while it's waiting here, because it would occupy an actor that other work needs.
        keys = [key for key in decode_work(event.value) if key not in self._waiting]
        if not keys:
            return
        self._waiting.update(keys)
        async with self._permits.acquire(_company_of(event.headers)):
            if self._stopping:
                # Wait until this actor is cancelled. Without an acknowledgement, another worker receives the message.
                await asyncio.Event().wait()
            # From now on, these keys may be postponed and sent again.
            self._waiting.difference_update(keys)
            # Run in a separate task, so that context variables don't leak into the next message.
            work = asyncio.create_task(self._work_off(keys))
            self._working.add(work)
            work.add_done_callback(self._working.discard)
            await work

    async def _work_off(self, keys: Sequence[WorkKey]) -> None:
        try:
            for run in [key for key in keys if isinstance(key, RunKey)]:
                await self._run(run)
            if items := [key for key in keys if isinstance(key, ItemKey)]:
                await self._items(items)
        # The leases expire, and the reconciler sends the work again.
        except StoreUnavailable as problem:
            _log.warning("streams.outage", problem=str(problem).strip())
        except Exception:
            _log.exception("streams.work_failed")


def _company_of(headers: Mapping[str, bytes] | Sequence[tuple[str, bytes]] | None) -> str:
    return dict(headers or ()).get(_COMPANY, b"").decode(errors="replace")


def lag(ends: Mapping[Any, int], read: Mapping[Any, int]) -> int:
    """Returns the number of unread messages. ``ends`` contains end offsets, and ``read`` the last offsets read."""
    return sum(max(ends[partition] - offset - 1, 0) for partition, offset in read.items() if partition in ends)


def _credentials(kafka: KafkaConnection) -> CredentialsT | None:
    if kafka.authenticated:
        return faust.SASLCredentials(
            username=kafka.username, password=kafka.password, ssl_context=kafka.tls, mechanism=kafka.sasl_mechanism
        )
    return faust.SSLCredentials(kafka.tls) if kafka.encrypted else None


def _application(kafka: KafkaConnection, prefix: str, member_id: str) -> faust.App:
    # At their usual level, these loggers report every component that starts.
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
        # A worker that joins can't help with messages that another one has prefetched.
        stream_buffer_maxsize=256,
        broker_max_poll_records=200,
        stream_wait_empty=False,
        # A message may contain several files that take an hour each. The watchdog detects stuck work.
        stream_processing_timeout=_LONGEST_SECONDS,
        broker_commit_livelock_soft_timeout=_LONGEST_SECONDS,
        broker_session_timeout=10.0,
        broker_heartbeat_interval=1.0,
        broker_client_id=member_id,
    )
