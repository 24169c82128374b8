"""Creates the declared topics in the stack's Kafka."""


async def create_topics(bootstrap_servers: str, prefix: str) -> None:
    # Imported late: the Kafka client takes a while to load and only this step needs it.
    from libs.eventing import create_topics as create

    await create(bootstrap_servers, prefix)
