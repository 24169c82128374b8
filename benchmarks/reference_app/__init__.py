"""What a user would write by hand in an afternoon: the yardstick of the benchmarks.

One FastAPI process with pydantic-ai and the history in PostgreSQL. It has none of the service's guarantees: a turn
that the process does not survive is lost, a retried request is carried out twice, nothing orders two requests of
one session, and there is no authentication, no queue and no record of events.
"""
