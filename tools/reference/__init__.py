"""Generates pages and tables of the documentation from code: `python -m tools.reference`."""
