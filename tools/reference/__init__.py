"""Pages and tables of the documentation that are generated from code: `python -m tools.reference` writes them."""
