"""The registry: agents with their versions, toolsets, secrets, and the validation of configurations."""
