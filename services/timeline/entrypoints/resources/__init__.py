"""Handles commands and serves reads, with one module per resource."""
