"""Why a broker lets nobody in; its clients only say that they could not connect."""

import asyncio
from typing import Final

from aiokafka.conn import create_conn
from aiokafka.errors import KafkaError

from libs.eventing._connection import KafkaConnection

_SECONDS: Final = 5.0


async def refusal(connection: KafkaConnection) -> str | None:
    """What the first broker says to one more connection; none when it takes it."""
    options = connection.options()
    server = options.pop("bootstrap_servers").split(",")[0].strip()
    host, _, port = server.rpartition(":")
    try:
        async with asyncio.timeout(_SECONDS):
            opened = await create_conn(host.strip("[]"), int(port), **options)
    except TimeoutError:
        return f"{server} does not answer"
    except (KafkaError, OSError, ValueError) as problem:
        return f"{server}: {str(problem) or type(problem).__name__}"
    opened.close()
    return None
