"""Agents, their versions, and what makes a configuration valid."""
