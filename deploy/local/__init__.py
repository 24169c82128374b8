"""The embedded stack: real PostgreSQL, real Kafka and every service on one machine, without containers."""
