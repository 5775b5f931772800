"""What a plain installation brings: how many distributions, and how many bytes.

Read from the metadata of what is installed, without any extras: nothing is downloaded.
"""

import importlib
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ..measure import Benchmark, CannotMeasureHereError

__all__ = ["BENCHMARKS", "bytes_of", "plain_installation"]

PROJECT = "nighthawk-async"
PACKAGE = "nighthawk_async"


def plain_installation(name: str) -> dict[str, Distribution]:
    """The distributions that come with one, itself among them, by their normalized names.

    Args:
        name: The distribution.

    Raises:
        CannotMeasureHereError: One of them is not installed.
    """
    found: dict[str, Distribution] = {}
    pending = [Requirement(name)]
    visited: set[tuple[str, str]] = set()
    while pending:
        requirement = pending.pop()
        key = canonicalize_name(requirement.name)
        for extra in ("", *sorted(requirement.extras)):
            if (key, extra) not in visited:
                visited.add((key, extra))
                found[key] = _installed(key)
                pending += _required_by(found[key], extra)
    return found


def bytes_of(found: Distribution) -> int:
    """Bytes of the files that a distribution's record names, compiled ones left out.

    An editable installation has no such record of its package, whose files are then counted where they lie.
    """
    if canonicalize_name(found.name) == PROJECT:
        package = Path(str(importlib.import_module(PACKAGE).__file__)).parent
        return sum(
            file.stat().st_size
            for file in package.rglob("*")
            if file.is_file() and file.parent.name != "__pycache__"
        )
    files = (Path(str(file.locate())) for file in found.files or () if file.suffix != ".pyc")
    return sum(file.stat().st_size for file in files if file.is_file())


def count_installed(_: int) -> Mapping[str, float]:
    """Count what a plain installation brings."""
    found = plain_installation(PROJECT)
    return {
        "distributions": len(found),
        "installed_bytes": sum(map(bytes_of, found.values())),
    }


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise CannotMeasureHereError(f"{name} is required and not installed") from None


def _required_by(found: Distribution, extra: str) -> list[Requirement]:
    requirements = map(Requirement, found.requires or ())
    return [each for each in requirements if each.marker is None or each.marker.evaluate({"extra": extra})]


BENCHMARKS = (
    Benchmark(
        name="install",
        what="a plain installation, without extras",
        run=count_installed,
        operations=1,
        quick_operations=1,
        rounds=1,
        is_warmed_up=False,
    ),
)
