"""The contracts of the APIs and the bus: envelope, topics, commands, events, and request and response bodies."""
