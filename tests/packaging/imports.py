"""Import every module of an installed distribution, as a program of its own: `python imports.py [--all]`.

Without the extras a module may ask for the package of an extra, or say which extra it needs, and no more.
With `--all` each is imported, but for those of an extra that `all` leaves out, and of pytest.
"""

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from importlib.metadata import distribution

DISTRIBUTION, PACKAGE = "nighthawk-async", "nighthawk_async"
IMPORT_NAMES = {
    "azure_identity": "azure",
    "google_auth": "google",
    "opentelemetry_api": "opentelemetry",
    "opentelemetry_sdk": "opentelemetry",
}
PROGRAMS = ("__main__", "process_program", "shell_keeper", "process_worker")
"""Modules that are programs: to import them is to run them, or they stand in another interpreter."""


def main(*, is_complete: bool) -> None:
    """Import all, and say how many could not be."""
    optional = {"pytest", "_pytest", *(() if not is_complete else {"ray"})}
    if not is_complete:
        optional |= set(optional_packages())
    count, without, failed = 0, set[str](), list[str]()
    for name in modules():
        count += 1
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            without.add(missing)
            if missing not in optional:
                failed.append(f"{name}: {error}")
        except Exception as error:
            if not is_complete and "needs the extra" in str(error):
                continue
            failed.append(f"{name}: {type(error).__name__}: {error}")
    print(f"{count} modules of {DISTRIBUTION} {distribution(DISTRIBUTION).version}", end="")
    print(f", some without {', '.join(sorted(without))}" if without else "")
    if failed or count < 300:
        sys.exit("\n".join(["modules that cannot be imported:", *failed]))


def modules() -> Iterator[str]:
    """The names of all modules, programs left out."""
    package = importlib.import_module(PACKAGE)
    for found in pkgutil.walk_packages(package.__path__, f"{PACKAGE}.", onerror=lambda name: None):
        if found.name.rpartition(".")[2] not in PROGRAMS:
            yield found.name


def optional_packages() -> Iterator[str]:
    """The import names of the packages that only extras bring."""
    for each in distribution(DISTRIBUTION).requires or ():
        if "extra ==" in each:
            name = re.split(r"[\s\[<>=!~;]", each)[0].replace("-", "_")
            yield IMPORT_NAMES.get(name, name)


if __name__ == "__main__":
    main(is_complete="--all" in sys.argv[1:])
