"""Agents, their versions, toolsets, secrets, and the validation of configurations."""
