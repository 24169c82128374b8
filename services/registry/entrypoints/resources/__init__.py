"""The ways into each resource: its commands and its reads."""
