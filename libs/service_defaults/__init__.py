"""Shared by all services: settings, logs, health, errors, internal calls, startup and shutdown."""

from libs.service_defaults._command_line import serve
from libs.service_defaults._release import RELEASE
from libs.service_defaults.internal_calls import UpstreamClient, UpstreamResponse, UpstreamStream
from libs.service_defaults.internal_routes import Caller, Cursor, Limit, Offset
from libs.service_defaults.service import API, Service
from libs.service_defaults.settings import ServiceSettings, invalid_settings

__all__ = [
    "API",
    "RELEASE",
    "Caller",
    "Cursor",
    "Limit",
    "Offset",
    "Service",
    "ServiceSettings",
    "UpstreamClient",
    "UpstreamResponse",
    "UpstreamStream",
    "invalid_settings",
    "serve",
]
