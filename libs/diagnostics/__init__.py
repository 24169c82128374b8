"""Health checks of service processes."""

from libs.diagnostics.health import Health, ask_health

__all__ = ["Health", "ask_health"]
