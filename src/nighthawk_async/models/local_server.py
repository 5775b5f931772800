"""Entry point of the child process that serves a GGUF file on loopback.

A program of its own: `local_process` starts this file, the library never imports it, and it imports nothing
of the library, so that it starts fast. It writes one line of JSON to its standard output, `{"address": …}`
once it answers requests or `{"error": …}` when it cannot, and then serves until its standard input ends. The
parent holds the other end of that pipe and writes one line to it, so the child ends with the parent, in every
case.

That line is the key that every request must carry. Other users of the machine can read command lines, and
web pages can send requests to the loopback; neither gets an answer.
"""

import argparse
import importlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PARENT_POLL_SECONDS = 1.0
_PREFIX = "/nighthawk"
"""A path prefix. llama.cpp answers some paths without the key, such as `/health`, but none below a prefix."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the parent has ended.

    Args:
        arguments: The command line without the program's name; None for the process's own.
    """
    options = _parse(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both; the parent handles it
    _end_when_orphaned(options.parent)
    key = _read_key()
    threading.Thread(target=_exit_at_end_of_input, daemon=True).start()
    report = _claim_standard_output()
    try:
        server = _start_server(options, key)
    except (AttributeError, ImportError, RuntimeError, ValueError) as error:
        _write_line(report, {"error": f"{type(error).__name__}: {error}"})
        sys.exit(1)
    _write_line(report, {"address": server.listening_address + _PREFIX})
    _silence()
    threading.Event().wait()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serve a GGUF file on loopback until standard input ends.")
    parser.add_argument("--model", required=True, help="path of the GGUF file")
    parser.add_argument("--context-tokens", type=int, required=True, help="tokens of context per request")
    parser.add_argument(
        "--parallel-requests", type=int, required=True, help="requests worked on at the same time"
    )
    parser.add_argument("--threads", type=int, required=True, help="processor threads")
    parser.add_argument("--parent", type=int, required=True, help="process id of the parent")
    return parser.parse_args(arguments)


def _start_server(options: argparse.Namespace, key: str) -> Any:
    xllamacpp: Any = importlib.import_module("xllamacpp")  # an extension module without types
    parameters = xllamacpp.CommonParams()
    parameters.model.path = options.model
    parameters.model_alias = {Path(options.model).stem}  # the name in responses, which should not show a path
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [key]
    parameters.api_prefix = _PREFIX
    parameters.cors_origins = parameters.cors_methods = parameters.cors_headers = ""  # not for web pages
    parameters.cors_origins_explicit = True
    parameters.cors_credentials = False
    parameters.endpoint_slots = False  # they show the prompts of other users
    parameters.n_parallel = options.parallel_requests
    parameters.n_ctx = options.context_tokens * options.parallel_requests
    parameters.kv_unified = False  # every request gets its share of the context, whatever the others need
    parameters.cpuparams.n_threads = options.threads
    parameters.cpuparams_batch.n_threads = options.threads
    parameters.cache_ram_mib = 0  # llama.cpp would keep up to 8 GiB of old prompts
    parameters.verbosity = 1  # errors only: the parent shows them when the start fails
    parameters.fit_params = False  # the context is given, so there is nothing to fit to the memory
    parameters.ui = False
    parameters.offline = True
    return xllamacpp.Server(parameters)


def _read_key() -> str:
    """The first line of standard input, without reading further."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(sys.stdin.fileno(), 1)
        if not part:
            os._exit(0)  # the parent has ended
        line += part
    return line.decode("ascii").strip()


def _end_when_orphaned(parent: int) -> None:
    """End this process when the parent has ended although the pipe from it is open.

    It stays open if the parent forked a process that still holds its end of the pipe. Linux's parent-death
    signal does not help: it comes when the thread that started the child ends, not when the process does.
    """
    if os.name == "posix":
        threading.Thread(target=_exit_when_orphaned, args=(parent,), daemon=True).start()


def _exit_at_end_of_input() -> None:
    try:
        while os.read(sys.stdin.fileno(), 4096):
            continue
    finally:
        os._exit(0)


def _exit_when_orphaned(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_SECONDS)
    os._exit(0)


def _claim_standard_output() -> int:
    """Keep standard output for the one report, and send all other output to standard error."""
    report = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return report


def _write_line(report: int, content: Mapping[str, str]) -> None:
    os.write(report, json.dumps(content).encode() + b"\n")
    os.close(report)


def _silence() -> None:
    """After the start, discard llama.cpp's output: errors reach the parent as HTTP answers."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.dup2(nowhere, sys.stderr.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    main()
