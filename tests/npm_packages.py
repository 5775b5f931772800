"""Packages of npm that tests drive, and where they are."""

import os
import shutil
from pathlib import Path

import pytest

__all__ = ["LOADER", "LOOPBACK_ONLY", "find_binary", "find_script"]

_ROOT = Path(__file__).parents[1]

LOADER = Path(__file__).parent / "npm_loader.mjs"
"""A module for `node --import`; see there."""


LOOPBACK_ONLY = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:1"),
    "NO_PROXY": "127.0.0.1,localhost",
}
"""Variables with which a program of others reaches nothing but this machine: Codex asks for updates, plugins
and settings of its maker. Nothing listens at that port."""


def _folder() -> Path:
    given = os.environ.get("NIGHTHAWK_NPM")
    return Path(given) if given else _ROOT / ".cache" / "npm"


def _find_package(name: str) -> Path:
    """The folder of a package; skips the test when it is not installed."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    found = _folder() / "node_modules" / name
    if not found.is_dir():
        pytest.skip(f"the npm package {name} is not in {_folder()}; NIGHTHAWK_NPM names another folder")
    return found


def find_script(package: str, path: str) -> str:
    """The path of a script of a package, for node; skips the test when the package is not installed."""
    return str(_find_package(package) / path)


def find_binary(package: str, path: str) -> str:
    """The path of a program of a package; skips the test when it is not installed for this system."""
    found = _find_package(package) / path
    if not os.access(found, os.X_OK):
        pytest.skip(f"{found} is no program of this system")
    return str(found)
