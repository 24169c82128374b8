"""`python -m benchmarks.reference_app PORT` with the database's URL in REFERENCE_DATABASE_URL."""

import os
import sys

import uvicorn

from benchmarks.reference_app.app import create_app

uvicorn.run(
    create_app(os.environ["REFERENCE_DATABASE_URL"]),
    host="127.0.0.1",
    port=int(sys.argv[1]),
    loop="uvloop",
    http="httptools",
    log_level="warning",
    access_log=False,
)
