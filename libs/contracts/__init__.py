"""The wire contracts: envelope, topics, commands, events and REST bodies."""
