"""Entry points for commands and reads, by resource."""
