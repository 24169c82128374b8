"""A ticket office as an HTTP service: free seats, bookings and cancellations, stored in memory.

    .aes/venv/bin/python examples/toolsets/ticket_office.py          # http://127.0.0.1:8201

Each Idempotency-Key creates one booking, however often the request is sent: the Agent Execution Service sends the same
key when it retries a call. Requests need `Authorization: Bearer` with the key from TICKET_OFFICE_KEY, by default
`berth-4711`. Toolsets reference the key as a secret. tickets-openapi.yaml describes the service, and http-toolset.yaml
defines a tool for each request.
"""

import os
import sys
from dataclasses import asdict, dataclass
from itertools import count

from aiohttp import web

KEY = os.environ.get("TICKET_OFFICE_KEY", "berth-4711")


@dataclass
class Booking:
    id: str
    crossing: str
    seats: int
    name: str


class TicketOffice:
    def __init__(self) -> None:
        self.free = {"morning": 40, "noon": 12, "evening": 3}
        self.bookings: dict[str, Booking] = {}
        self._by_key: dict[str, Booking] = {}
        self._numbers = count(1)

    def book(self, crossing: str, seats: int, name: str, key: str | None = None) -> Booking:
        """Books seats on a crossing. Raises LookupError if the crossing is unknown or has too few free seats."""
        if key is not None and key in self._by_key:
            return self._by_key[key]
        if crossing not in self.free:
            raise LookupError(f"The crossing {crossing!r} doesn't exist. Use one of: {', '.join(self.free)}.")
        if seats > self.free[crossing]:
            raise LookupError(f"Too few free seats on the {crossing} crossing: {self.free[crossing]}.")
        self.free[crossing] -= seats
        booking = Booking(f"T{next(self._numbers):04}", crossing, seats, name)
        self.bookings[booking.id] = booking
        if key is not None:
            self._by_key[key] = booking
        return booking

    def cancel(self, booking_id: str) -> None:
        """Cancels a booking. Cancelling it again has no effect."""
        booking = self.bookings.pop(booking_id, None)
        if booking is not None:
            self.free[booking.crossing] += booking.seats


def application(office: TicketOffice) -> web.Application:
    routes = web.RouteTableDef()

    @routes.get("/crossings")
    async def crossings(request: web.Request) -> web.Response:
        least = int(request.query.get("min_free", 0))
        found = [{"name": name, "free": free} for name, free in office.free.items() if free >= least]
        return web.json_response({"crossings": found})

    @routes.post("/bookings")
    async def book(request: web.Request) -> web.Response:
        body = await request.json()
        try:
            made = office.book(body["crossing"], body["seats"], body["name"], request.headers.get("Idempotency-Key"))
        except LookupError as problem:
            # The model reads this message, so it must say what to do.
            return web.json_response({"error": str(problem)}, status=409)
        return web.json_response(asdict(made), status=201)

    @routes.delete("/bookings/{id}")
    async def cancel(request: web.Request) -> web.Response:
        office.cancel(request.match_info["id"])
        return web.Response(status=204)

    @web.middleware
    async def with_key(request: web.Request, handler) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"error": "Send the key as a bearer token."}, status=401)
        return await handler(request)

    app = web.Application(middlewares=[with_key])
    app.add_routes(routes)
    return app


if __name__ == "__main__":
    web.run_app(application(TicketOffice()), host="127.0.0.1", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8201)
