"""The wire truth: envelope, topics, commands, events, REST bodies."""
