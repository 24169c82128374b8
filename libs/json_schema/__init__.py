"""Untrusted JSON Schemas: checked, compiled and applied offline and within limits."""

from libs.json_schema._schemas import MAX_BYTES, MAX_DEPTH, CompiledSchema, SchemaInvalid, compile_schema

__all__ = ["MAX_BYTES", "MAX_DEPTH", "CompiledSchema", "SchemaInvalid", "compile_schema"]
