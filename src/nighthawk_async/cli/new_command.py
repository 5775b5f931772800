"""`nighthawk-async new`: writes a small project that passes its own checks."""

import importlib
import json
import keyword
import re
import sys
from pathlib import Path
from string import Template
from typing import Annotated, Any

import anyio
import typer

from ..configuration import StepExecutorConfiguration
from ..errors import ConfigurationError
from ..runs import run
from ..testing import ModelReply, ModelServer, cassette
from ..types.messages import ToolCall

_MODEL = "openai-responses:gpt-5.4-nano"
_MAIL = "Where is my lamp? I ordered it two weeks ago."
_TEST = "test_a_late_parcel_is_about_an_order"

_FILES = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "$distribution"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["nighthawk-async[cli]"]

[dependency-groups]
dev = ["anyio", "pre-commit", "pyright", "pytest", "ruff"]

[tool.hatch.build.targets.wheel]
packages = ["src/$package"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["src"]

[tool.ruff]
line-length = 100
src = ["src"]

[tool.ruff.lint]
select = ["B", "E", "F", "I", "UP"]

[tool.pyright]
include = ["src", "tests"]
extraPaths = ["src"]
typeCheckingMode = "strict"
""",
    ".pre-commit-config.yaml": """
repos:
  - repo: local
    hooks:
      - id: ruff
        name: ruff
        entry: ruff check
        language: system
        types: [python]
      - id: nighthawk-async-check
        name: natural functions
        entry: nighthawk-async check
        language: system
        types: [python]
        require_serial: true
""",
    ".gitignore": """
.venv/
__pycache__/
.pytest_cache/
.ruff_cache/
""",
    "README.md": """
# $distribution

Says what mails are about.

    python -m venv .venv && . .venv/bin/activate
    pip install --group dev -e .
    pytest                                        # no key is needed: the answer stands in tests/cassettes
    nighthawk-async check src                     # finds mistakes in blocks without a model
    OPENAI_API_KEY=... python -m $package "$mail"

The answer in `tests/cassettes` was made up when the project was written. Record a real one, with a key:

    pytest --record=all
""",
    "src/$package/__init__.py": '''
"""Says what mails are about."""
''',
    "src/$package/labels.py": '''
"""The labels of mails."""

from typing import Literal

import nighthawk_async as nh

MODEL = "$model"

Label = Literal["order", "complaint", "other"]


@nh.natural_function
async def label(mail: str) -> Label:
    """Return what a mail is about."""
    kind: Label = nh.unset
    """natural
    Set <:kind> to what <mail> is about.
    """
    return kind
''',
    "src/$package/__main__.py": '''
"""Print what a mail is about: `python -m $package "A mail"`."""

import sys

import anyio
import nighthawk_async as nh

from .labels import MODEL, label


async def main(mail: str) -> None:
    async with nh.run(MODEL):
        print(await label(mail))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
''',
    "tests/test_labels.py": '''
"""What mails are about, with a recorded answer, and with one that the test gives."""

import nighthawk_async as nh
import pytest
from nighthawk_async.testing import Cassette, ScriptedExecutor, pass_response

from $package.labels import MODEL, label

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


async def $test(model_cassette: Cassette) -> None:
    async with nh.run(MODEL):
        assert await label("$mail") == "order"


async def test_the_value_of_the_block_is_returned() -> None:
    async with nh.run(ScriptedExecutor([pass_response(kind="other")])):
        assert await label("Good morning.") == "other"
''',
}


def new(
    folder: Annotated[Path, typer.Argument(metavar="NAME", help="The folder; its name names the package.")],
) -> None:
    """Write a small project: a natural function, tests with a cassette, settings of ruff, pyright and pytest.

    The folder must not exist, or be empty. Nothing is installed, and no model is asked.
    """
    package = re.sub(r"[-.\s]+", "_", folder.resolve().name)
    _check_name(package, folder)
    words = {
        "distribution": package.replace("_", "-"),
        "package": package,
        "mail": _MAIL,
        "model": _MODEL,
        "test": _TEST,
    }
    for name, text in _FILES.items():
        path = folder / Template(name).substitute(words)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text.lstrip("\n")).substitute(words), encoding="utf-8", newline="\n")
    _record(folder.resolve(), package)
    typer.echo(f"{folder} is written. Its README.md says how to go on.")


def _check_name(package: str, folder: Path) -> None:
    """Refuse a name that cannot be imported or is taken, and a folder that holds something."""
    if not package.isidentifier() or not package.isascii() or keyword.iskeyword(package):
        raise ConfigurationError(f"{folder.name!r} cannot name a package: use letters, digits and hyphens.")
    if package in sys.stdlib_module_names or package in ("nighthawk_async", "tests", "anyio", "pytest"):
        raise ConfigurationError(f"{package!r} is the name of another package: choose another one.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(f"{folder} exists: name a folder that does not, or that is empty.")


def _record(folder: Path, package: str) -> None:
    """Record the cassette of the test, with a server on this machine in place of the provider."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder / "src"))
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        importlib.invalidate_caches()
        label: Any = importlib.import_module(f"{package}.labels").label
        anyio.run(_answer, label, folder / "tests" / "cassettes" / "test_labels" / f"{_TEST}.yaml")
    finally:
        sys.dont_write_bytecode = writes_bytecode
        sys.path.remove(str(folder / "src"))
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == package:
                del sys.modules[name]


async def _answer(label: Any, file: Path) -> None:
    answer = {"kind": "pass", "bindings": {"kind": "order"}}
    call = ToolCall(id="call_1", name="nh_outcome", arguments=json.dumps(answer))
    async with ModelServer([ModelReply(tool_calls=(call,))]) as server:
        settings = {"base_url": server.base_url, "api_key": "none"}
        configuration = StepExecutorConfiguration(model=_MODEL, model_settings=settings)
        async with cassette(file, mode="all"), run(configuration):
            await label(_MAIL)
