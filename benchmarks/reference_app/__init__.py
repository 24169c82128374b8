"""The hand-written reference app of the benchmarks, an afternoon's work.

One FastAPI process with pydantic-ai and the history in PostgreSQL. It has none of the service's guarantees: a turn
that the process does not survive is lost, a retried request is carried out twice, nothing orders two requests of
one session, and there is no authentication, no queue and no record of events.
"""
