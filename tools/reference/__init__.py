"""Generates pages and tables of the documentation from the code: `python -m tools.reference`."""
