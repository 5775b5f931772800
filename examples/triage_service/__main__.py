"""`python -m examples.triage_service`: serve until Ctrl-C or SIGTERM, and say where."""

import argparse
import socket
from collections.abc import Sequence
from contextlib import suppress

import nighthawk_async as nh

from .app import create_app
from .servers import serve_with_hypercorn, serve_with_uvicorn

LISTENED_QUEUE = 1_024
MAX_PORT = 65_535


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve.

    Args:
        arguments: The command line without the program's name; None for the process's own.
    """
    options = _parse(arguments)
    try:
        service = create_app()
    except nh.NighthawkError as error:
        raise SystemExit(str(error)) from None
    with _listen(options.host, options.port) as listener:
        _announce(listener)
        with suppress(KeyboardInterrupt):
            if options.server == "uvicorn":
                serve_with_uvicorn(service, listener)
            else:
                serve_with_hypercorn(service, listener, options.backend)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="triage_service", description="Sort support tickets.")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=_port, default=8000, help="the port; 0 for any that is free")
    parser.add_argument("--server", choices=("uvicorn", "hypercorn"), default="uvicorn")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="trio", help="for Hypercorn")
    return parser.parse_args(arguments)


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= MAX_PORT:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to {MAX_PORT}")
    return port


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=LISTENED_QUEUE)
    except OSError as error:
        raise SystemExit(
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another --host or --port."
        ) from None


def _announce(listener: socket.socket) -> None:
    host, port = listener.getsockname()[:2]
    url = f"http://{host}:{port}"
    print(f"service    {url}/tickets  {url}/batches  {url}/investigations")
    print(f"health     {url}/health")
    print(f"dashboard  {url}/dashboard/", flush=True)


if __name__ == "__main__":
    main()
