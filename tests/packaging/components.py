"""The components of each extra: `python -m tests.packaging.components WHEEL FOLDER`.

Writes a bill of materials (CycloneDX) for each extra, from an environment that has just this, and the list of
all licences. Fails on a licence that docs/stability.md does not name.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

PROJECT = Path(__file__).parents[2]
PERMISSIVE = re.compile(
    r"MIT|BSD|Apache|ISC|PSF|Python Software Foundation|Unlicense|0BSD|CNRI|CC0|Zlib|MPL|Mozilla|HPND|BSL",
    re.IGNORECASE,
)
COPYLEFT = {"psycopg": "LGPL", "psycopg-binary": "LGPL"}
"""Packages under another licence, which docs/stability.md names."""


def main(wheel: Path, folder: Path) -> None:
    """Write all lists."""
    extras = [
        "",
        *tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"],
    ]
    extras.remove("ray")  # a gigabyte, and its list is Ray's own
    with TemporaryDirectory() as temporary:
        for extra in extras:
            python = environment(wheel, extra, Path(temporary) / (extra or "plain"))
            name = f"nighthawk-async{f'-{extra}' if extra else ''}.cdx.json"
            write_components(python, folder / name)
            if extra == "all":
                lines = [*licences(python)]
    (folder / "licences.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(extras)} lists of components, {len(lines)} licences")


def environment(wheel: Path, extra: str, place: Path) -> str:
    """The interpreter of a new environment that has an extra and nothing else."""
    uv = str(Path(sys.executable).with_name("uv"))
    python = str(place / "bin" / "python")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(place)], check=True)
    what = f"nighthawk-async[{extra}] @ {wheel.resolve().as_uri()}" if extra else str(wheel)
    quick = {**os.environ, "UV_COMPILE_BYTECODE": "0"}  # nothing runs in it
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, what], check=True, env=quick)
    subprocess.run([uv, "pip", "check", "--quiet", "--python", python], check=True)
    return python


def write_components(python: str, file: Path) -> None:
    """Write the bill of materials of an environment; the same environment gives the same file."""
    command = [
        *(sys.executable, "-m", "cyclonedx_py", "environment", python),
        *("--output-reproducible", "--output-format", "JSON", "--output-file", str(file)),
    ]
    subprocess.run(command, check=True, capture_output=True)
    if len(json.loads(file.read_bytes()).get("components", ())) < 15:
        raise SystemExit(f"{file.name} lists too few components")


def licences(python: str) -> Iterator[str]:
    """A line for each package: its name, its version, its licence.

    Raises:
        SystemExit: One is neither permissive nor known.
    """
    listing = Path(sys.executable).with_name("pip-licenses")
    command = [str(listing), "--python", python, "--format", "json", "--from", "all"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    for each in json.loads(done.stdout):
        name, found = each["Name"], [value for key, value in each.items() if key.startswith("License")]
        licence = next((value for value in found if value != "UNKNOWN"), "UNKNOWN").splitlines()[0][:80]
        if not PERMISSIVE.search(" ".join(found)) and COPYLEFT.get(name, "none") not in " ".join(found):
            raise SystemExit(f"{name} has the licence {licence!r}, which docs/stability.md does not name")
        yield f"{name} {each['Version']}: {licence}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
