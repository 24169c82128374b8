"""Asks processes of the services how they are."""

from libs.diagnostics.health import Health, ask_health

__all__ = ["Health", "ask_health"]
