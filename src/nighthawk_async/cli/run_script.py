"""Runs a script as Python would, or calls one of its functions.

Also converts arguments of the command line to arguments of a function, by its annotations. Pure.
"""

import builtins
import importlib
import importlib.machinery
import importlib.util
import inspect
import json
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import anyio
from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError

import nighthawk_async as nh

from ..errors import ConfigurationError
from ..kernel.environment import find_environment
from ..kernel.run import Run
from ..signatures import read_signature, type_hints
from ..values.validation import keyword_types, positional_types, type_name, type_of_items

_OPTION = "--"


class ArgumentError(ConfigurationError):
    """A function cannot be called with the arguments of the command line."""


def bind_arguments(function: Callable[..., Any], texts: Sequence[str]) -> inspect.BoundArguments:
    """The arguments to call a function with.

    `--name value` and `--name=value` are arguments by name, with `-` for `_` if you like; `--name` alone is
    True. Arguments after `--` are no names. A text for the annotation `str` is used as it is. Otherwise it is
    read as JSON and validated against the annotation, or validated as a text if it is none.

    Args:
        function: The function.
        texts: The arguments on the command line.

    Raises:
        ArgumentError: They do not fit.
    """
    signature = read_signature(function)
    annotations = type_hints(function)
    by_position, by_name = _sort(texts)
    try:
        bound = signature.bind(*by_position, **by_name)
    except TypeError as error:
        shown = f"{getattr(function, '__name__', 'the function')}{signature}"
        raise ArgumentError(f"{error}; it is {shown}") from None
    for name, parameter in signature.parameters.items():
        annotation = annotations.get(name, Any)
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            bound.arguments[name] = _several(name, bound.arguments.get(name, ()), annotation)
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            bound.arguments[name] = _options(name, bound.arguments.get(name, {}), annotation)
        elif name in bound.arguments:
            bound.arguments[name] = _value(name, bound.arguments[name], annotation)
    return bound


def _several(name: str, given: Sequence[str], annotation: Any) -> tuple[Any, ...]:
    kinds = positional_types(annotation, len(given))
    if kinds is None:
        whole = type_name(type_of_items(annotation, "positional"))
        raise ArgumentError(f"the arguments {name} are of the type {whole}; {len(given)} are given")
    return tuple(_value(name, each, kind) for each, kind in zip(given, kinds, strict=True))


def _options(name: str, given: Mapping[str, str | bool], annotation: Any) -> dict[str, Any]:
    typed = keyword_types(annotation)
    if typed is None:
        return {key: _value(key, each, annotation) for key, each in given.items()}
    kinds = typing.get_type_hints(typed)
    missing = sorted(typed.__required_keys__ - given.keys())
    unknown = sorted(given.keys() - kinds.keys())
    if missing or unknown:
        what = [*(f"--{key} is missing" for key in missing), *(f"--{key} is none of them" for key in unknown)]
        raise ArgumentError(f"the arguments {name} are those of {type_name(typed)}: {', '.join(what)}")
    return {key: _value(key, each, kinds[key]) for key, each in given.items()}


def _sort(texts: Sequence[str]) -> tuple[list[str], dict[str, str | bool]]:
    by_position: list[str] = []
    by_name: dict[str, str | bool] = {}
    rest = list(texts)
    while rest:
        text = rest.pop(0)
        if text == _OPTION:
            by_position += rest
            break
        if not text.startswith(_OPTION):
            by_position.append(text)
            continue
        name, sign, value = text.removeprefix(_OPTION).partition("=")
        name = name.replace("-", "_")
        if name in by_name:
            raise ArgumentError(f"--{name} is given twice")
        if sign:
            by_name[name] = value
        else:
            by_name[name] = True if not rest or rest[0].startswith(_OPTION) else rest.pop(0)
    return by_position, by_name


def _value(name: str, given: str | bool, annotation: Any) -> Any:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    except PydanticSchemaGenerationError:
        adapter = TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    try:
        return _validated(adapter, given, is_text=annotation is str)
    except ValidationError as error:
        reasons = "; ".join(detail["msg"] for detail in error.errors(include_url=False)[:3])
        raise ArgumentError(f"the argument {name}: {reasons}") from None


def _validated(adapter: TypeAdapter[Any], given: str | bool, *, is_text: bool) -> Any:
    if is_text or isinstance(given, bool):
        return adapter.validate_python(given)
    try:
        json.loads(given)
    except ValueError:
        return adapter.validate_python(given)
    try:
        return adapter.validate_json(given)
    except ValidationError as error:
        try:
            return adapter.validate_python(given)
        except ValidationError:
            raise error from None


class Backend(StrEnum):
    """The event loops."""

    trio = "trio"
    asyncio = "asyncio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script to run.

    Args:
        given: The file as it was given on the command line.
        function: The function to call; None for the whole script.
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
    """Run a script as the main module of the process.

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


def call_function(
    script: Script, *, backend: Backend, executor: Callable[[], nh.executors.StepExecutor]
) -> object:
    """Import a script and call a function of it.

    Args:
        script: The script, with the function.
        backend: The backend of an `async def` function.
        executor: Makes the executor of steps, used if the script itself has entered no run.

    Returns:
        The result of the function; the items of an asynchronous generator.

    Raises:
        ArgumentError: There is no such function, or the arguments do not fit.
    """
    function = getattr(import_script(script), script.function or "", None)
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


def import_script(script: Script) -> ModuleType:
    """Import a script, which sees the arguments and the import path that it would have by itself.

    Args:
        script: The script.
    """
    _prepare(script)
    return _import(script)


def _prepare(script: Script) -> None:
    """Set arguments and import path as `python SCRIPT.py` does."""
    sys.argv[:] = [script.given, *script.arguments]
    if not sys.flags.safe_path:
        sys.path.insert(0, str(Path(script.file).resolve().parent))


def _import(script: Script) -> ModuleType:
    name = Path(script.file).stem
    if name in sys.modules:  # a script may have the name of a module that is already imported
        name = f"{name}__script"
    loader = importlib.machinery.SourceFileLoader(name, script.file)
    spec = importlib.util.spec_from_file_location(name, script.file, loader=loader)
    if spec is None:
        raise ArgumentError(f"{script.given} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def load_function(name: str) -> Callable[..., Any]:
    """Import a function.

    Args:
        name: Its name: `module:function`, or `file.py:function`.

    Raises:
        ConfigurationError: There is no such module or function.
    """
    place, _, attribute = name.rpartition(":")
    if not place or not attribute:
        raise ConfigurationError(f"{name!r} is no function; write module:function, or file.py:function")
    found = getattr(load_module(place), attribute, None)
    if not callable(found):
        raise ConfigurationError(f"{name}: the module has no function {attribute!r}")
    return cast("Callable[..., Any]", found)


def load_module(place: str) -> ModuleType:
    """Import a module, as a program in the current folder would, or a file, as one in its folder would.

    Args:
        place: Its name: `module`, or `file.py`.

    Raises:
        ConfigurationError: There is no such module.
    """
    folder, module = Path.cwd(), place
    if place.endswith(".py"):
        folder, module = Path(place).resolve().parent, Path(place).stem
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # of the module itself
        raise ConfigurationError(f"there is no module {module!r} in {place!r}") from error
