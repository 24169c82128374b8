"""The registry service: stores agents, toolsets and secrets, and validates agent configurations."""
