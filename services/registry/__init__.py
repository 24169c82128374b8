"""Agents, their versions, toolsets, secrets, and what makes a configuration valid."""
