"""Commands and reads, by resource."""
