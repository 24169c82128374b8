"""Checks, compiles and applies untrusted JSON Schemas, offline and within resource limits."""

from libs.json_schema._schemas import MAX_BYTES, MAX_DEPTH, CompiledSchema, SchemaInvalid, compile_schema

__all__ = ["MAX_BYTES", "MAX_DEPTH", "CompiledSchema", "SchemaInvalid", "compile_schema"]
