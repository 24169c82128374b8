"""A TCP proxy in front of a server, whose connections a test cuts, freezes and restores."""

import asyncio
import contextlib
from types import TracebackType


class TcpProxy:
    """Listens on ``host`` and ``port`` and passes bytes to and from ``target_port`` of this machine.

    ``cut`` refuses connections and ends the present ones, as a server that went down; ``freeze`` keeps them but
    passes nothing on, as a network that lost its way; ``restore`` ends both.
    """

    def __init__(self, *, port: int, target_port: int, host: str = "127.0.0.1") -> None:
        self.port = port
        self._host = host
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "TcpProxy":
        await self.restore()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cut()

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        ending = list(self._connections)
        for connection in ending:
            connection.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def freeze(self) -> None:
        self._flowing.clear()

    async def restore(self) -> None:
        self._flowing.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, self._host, self.port)

    def changed(self, data: bytes) -> bytes:
        """Returns the bytes to be passed on instead."""
        return data

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        try:
            upstream, downstream = await asyncio.open_connection("127.0.0.1", self._target_port)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._forward(reader, downstream))
                    group.create_task(self._forward(upstream, writer))
            finally:
                downstream.close()
        except* OSError:
            pass  # One of the two sides is gone, and so is the connection.
        finally:
            self._connections.discard(connection)
            writer.close()

    async def _forward(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                await self._flowing.wait()
                sink.write(self.changed(data))
                await sink.drain()
        raise ConnectionResetError
