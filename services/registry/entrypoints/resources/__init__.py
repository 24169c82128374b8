"""Entry points by resource: commands and reads."""
