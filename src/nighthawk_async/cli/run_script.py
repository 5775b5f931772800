"""Carries out a script as Python would, or calls one of its functions."""

import builtins
import importlib.machinery
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio

import nighthawk_async as nh

from ..runtime.environment import find_environment
from ..runtime.run import Run
from .run_arguments import ArgumentError, bind_arguments

__all__ = ["Backend", "Script", "call_function", "parse_script", "run_as_main"]


class Backend(StrEnum):
    """The event loops."""

    trio = "trio"
    asyncio = "asyncio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script to run.

    Args:
        given: The file as it was given on the command line.
        function: The function of it to call; None for the whole script.
        arguments: The arguments that follow.
    """

    given: str
    function: str | None
    arguments: Sequence[str]

    @property
    def file(self) -> str:
        """The file's absolute path."""
        return str(Path(self.given).absolute())


def parse_script(text: str, arguments: Sequence[str]) -> Script:
    """Parse `SCRIPT.py[:function]`.

    Args:
        text: The text.
        arguments: The arguments that follow.

    Raises:
        ArgumentError: There is no such file, or it is a folder.
    """
    file, colon, function = text.rpartition(":")
    if not colon or not function.isidentifier():
        file, function = text, ""
    if not Path(file).exists():
        raise ArgumentError(f"there is no file {file!r}")
    if Path(file).is_dir():
        raise ArgumentError(f"{file!r} is a folder")
    return Script(given=file, function=function or None, arguments=arguments)


def run_as_main(script: Script) -> None:
    """Carry a script out as the main module of the process.

    Args:
        script: The script.
    """
    loader = importlib.machinery.SourceFileLoader("__main__", script.file)
    module = ModuleType("__main__")
    vars(module).update(
        __builtins__=builtins, __cached__=None, __file__=script.file, __loader__=loader, __spec__=None
    )
    _prepare(script)
    sys.modules["__main__"] = module
    exec(loader.source_to_code(loader.get_data(script.file), script.file), vars(module))


def call_function(script: Script, *, backend: Backend, executor: Callable[[], nh.StepExecutor]) -> object:
    """Import a script and call a function of it.

    Args:
        script: The script, with the function.
        backend: What an `async def` function runs on.
        executor: Makes what carries steps out, where the script itself has entered no run.

    Returns:
        What the function returns; the items of an asynchronous generator.

    Raises:
        ArgumentError: There is no such function, or the arguments do not fit.
    """
    _prepare(script)
    function = getattr(_import(script), script.function or "", None)
    if not callable(function) or isinstance(function, type):
        raise ArgumentError(f"{script.given} has no function {script.function!r}")
    bound = bind_arguments(function, script.arguments)
    call = partial(function, *bound.args, **bound.kwargs)
    run = None if find_environment() is not None else nh.run(executor(), sync_backend=backend.value)
    if not inspect.iscoroutinefunction(function) and not inspect.isasyncgenfunction(function):
        if run is None:
            return call()
        with run:
            return call()
    options = {"restrict_keyboard_interrupt_to_checkpoints": True} if backend is Backend.trio else {}
    return anyio.run(_call_async, call, run, backend=backend.value, backend_options=options)


async def _call_async(call: Callable[[], Any], run: Run | None) -> object:
    if run is None:
        return await _result_of(call())
    async with run:
        return await _result_of(call())


async def _result_of(called: Any) -> object:
    if inspect.isasyncgen(called):
        return [item async for item in called]
    return await called


def _prepare(script: Script) -> None:
    """Arguments and import path as `python SCRIPT.py` has them."""
    sys.argv[:] = [script.given, *script.arguments]
    if not sys.flags.safe_path:
        sys.path.insert(0, str(Path(script.file).resolve().parent))


def _import(script: Script) -> ModuleType:
    name = Path(script.file).stem
    if name in sys.modules:  # a script may be called like a module that is there already
        name = f"{name}__script"
    loader = importlib.machinery.SourceFileLoader(name, script.file)
    spec = importlib.util.spec_from_file_location(name, script.file, loader=loader)
    if spec is None:
        raise ArgumentError(f"{script.given} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module
