"""Checks that the service in this container is ready. Uses only a socket, because it runs every few seconds.

``python -IS healthcheck.py [PATH]`` prints the response, and exits with 1 if the service isn't ready.
"""

import socket
import sys

PORT = 8000
SECONDS = 4


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else "/health/ready"
    try:
        answer = ask(path)
    except OSError as problem:
        sys.exit(f"no response: {problem}")
    head, _, body = answer.partition("\r\n\r\n")
    print(body)
    sys.exit(0 if head.split()[1:2] == ["200"] else 1)


def ask(path: str) -> str:
    with socket.create_connection(("127.0.0.1", PORT), timeout=SECONDS) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")


if __name__ == "__main__":
    main()
