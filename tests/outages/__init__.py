"""Kills parts of an installation under load, one at a time, and measures how long what stands still."""
