"""Measures quality and latency of the search engines."""
