"""Parts of objects that decide on what code may do: under permissions, code neither reads nor changes them.

Not read: private attributes of what this library made; the names, the code and the frames of functions. Not
changed: attributes of modules, of classes and functions that the code has not made, and of what this library
made. Variables of such objects are given as copies, so that nothing is changed through them either.
"""

import inspect
import operator
import os
import re
import sys
import types
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ...kernel.context import is_step_function, runs_step_code
from .callables import own_attributes

_PACKAGE = __name__.partition(".")[0]

_OF_FRAMES = """
f_back f_builtins f_code f_generator f_globals f_locals f_trace tb_frame tb_next
gi_code gi_frame gi_yieldfrom cr_await cr_code cr_frame cr_origin ag_await ag_code ag_frame cell_contents
"""
_FRAME_PARTS = frozenset(_OF_FRAMES.split())
_CODE_PARTS = frozenset(("__builtins__", "__closure__", "__code__", "__globals__"))
ANNOTATIONS = "annotations"
ANNOTATION_PARTS = frozenset(("__annotations__", "__annotate__", "__annotate_func__"))
"""What is evaluated where types are looked up: texts in it would be code that no rule sees."""

_STATE_PARTS = frozenset(
    (
        *("__delattr__", "__getattr__", "__getattribute__", "__getstate__", "__reduce__", "__reduce_ex__"),
        *("__setattr__", "__setstate__"),
    )
)
"""Methods that give or replace the private state of an object."""
VARIABLES = "__dict__"

_RUNNING = (
    *(types.FrameType, types.TracebackType, types.GeneratorType, types.CoroutineType),
    *(types.AsyncGeneratorType, types.CellType, types.CodeType),
)
_FUNCTIONS = (types.FunctionType, types.MethodType)
_ROUTINES = (*_FUNCTIONS, types.BuiltinFunctionType, staticmethod, classmethod, property)
_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType)
_FORMATTED_PART = re.compile(r"\{[^{}]*\.\s*_")

_SEEING: Mapping[str, frozenset[str] | None] = {
    "gc": frozenset({"get_objects", "get_referents", "get_referrers"}),
    "sys": frozenset(
        {"_current_exceptions", "_current_frames", "_getframe", "call_tracing", "setprofile", "settrace"}
    ),
    "inspect": frozenset(
        (
            *("currentframe", "getasyncgenlocals", "getattr_static", "getclosurevars", "getcoroutinelocals"),
            *("getgeneratorlocals", "getinnerframes", "getmembers", "getmembers_static", "getouterframes"),
            *("stack", "trace"),
        )
    ),
    "threading": frozenset({"setprofile", "setprofile_all_threads", "settrace", "settrace_all_threads"}),
    **dict.fromkeys(("_ctypes", "code", "codeop", "ctypes", "marshal", "runpy", "timeit"), None),
}
"""Functions, by module, that reach what no rule sees: frames, all objects, memory, or texts that are run."""


def has_private_name(name: str) -> bool:
    """Whether reading an attribute of this name needs a look at its object; see `is_protected`."""
    return name.startswith("_") or name in _FRAME_PARTS


def is_protected(owner: object, name: str) -> bool:
    """Whether code of a step must not read an attribute of an object.

    `__dict__` is not protected; see `variables_of`.
    """
    if type(owner) is super:
        owner = cast("Any", owner).__self__
    if name in ANNOTATION_PARTS:
        return isinstance(owner, (type, *_FUNCTIONS)) or _is_module(owner)
    if name in _CODE_PARTS:
        return isinstance(owner, _FUNCTIONS) or _is_class_of(owner, _FUNCTIONS) or _is_module(owner)
    if name in _FRAME_PARTS:
        return isinstance(owner, _RUNNING) or _is_class_of(owner, _RUNNING)
    if name.startswith("__") and name.endswith("__"):
        return name in _STATE_PARTS and is_of_library(owner)
    return name.startswith("_") and is_of_library(owner)


def is_fixed(owner: object, name: str) -> bool:
    """Whether code of a step must not change an attribute of an object."""
    if isinstance(owner, (types.ModuleType, *_RUNNING)):
        return True
    if isinstance(owner, type):
        return not _is_class_of_step(cast("type[object]", owner))
    if isinstance(owner, _ROUTINES):
        return not (isinstance(owner, types.FunctionType) and is_step_function(owner))
    return _is_part_of_library(owner, name)


def variables_of(owner: object) -> Any:
    """Return `vars(owner)`; where they must not be changed, a copy without those that are private."""
    variables: Any = vars(owner)
    if not is_fixed(owner, ""):
        if not isinstance(owner, type):
            return variables
        return types.MappingProxyType(
            {name: value for name, value in variables.items() if name not in ANNOTATION_PARTS}
        )
    is_hiding = is_of_library(owner)
    copied = {
        name: value
        for name, value in variables.items()
        if not (is_hiding and is_protected(owner, name)) and name not in _CODE_PARTS | ANNOTATION_PARTS
    }
    return types.MappingProxyType(copied) if isinstance(variables, types.MappingProxyType) else copied


def is_of_library(owner: object) -> bool:
    """Whether this library made an object, its class or a base of that; or it is one of its modules."""
    if isinstance(owner, types.ModuleType):
        return _is_in_package(own_attributes(owner).get("__name__"))
    if isinstance(owner, types.FunctionType):
        return _is_in_package(owner.__globals__.get("__name__"))
    if isinstance(owner, types.MethodType):
        return is_of_library(owner.__func__)
    kinds: tuple[type, ...] = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
    return any(_is_in_package(vars(kind).get("__module__")) for kind in kinds)


def read_by(function: object, args: tuple[object, ...]) -> Iterator[tuple[object, str]]:
    """Yield the objects and attributes that a call reads by name, such as one of `getattr`."""
    if isinstance(function, types.MethodWrapperType):
        args = (function.__self__, *args)
    name = getattr(function, "__name__", "") if isinstance(function, _DESCRIPTORS + _SLOTS) else ""
    if function is getattr or name in ("__getattribute__", "__getattr__"):
        if len(args) > 1 and isinstance(args[1], str):
            yield args[0], str.__str__(args[1])
    elif name == "__get__" and len(args) > 1 and isinstance(args[0], _DESCRIPTORS):
        yield args[1], args[0].__name__
    elif name in _STATE_PARTS and args:
        yield args[0], name


_SLOTS = (types.MethodWrapperType, types.MethodDescriptorType, types.BuiltinFunctionType)


def names_a_part(function: object, args: tuple[object, ...]) -> bool:
    """Whether a call gets a text that names a private attribute: of `attrgetter`, or to be formatted."""
    if function is operator.attrgetter or function is operator.methodcaller:
        paths = args if function is operator.attrgetter else args[:1]
        parts = [part for path in paths if isinstance(path, str) for part in path.split(".")]
        return any(has_private_name(part) and not _is_harmless(part) for part in parts)
    if isinstance(function, types.BuiltinFunctionType) and isinstance(function.__self__, str):
        args = (function.__self__, *args)
    elif function not in (str.format, str.format_map):
        return False
    if getattr(function, "__name__", None) not in ("format", "format_map"):
        return False
    return bool(args) and isinstance(args[0], str) and _FORMATTED_PART.search(args[0]) is not None


def reads_by_name(function: object) -> bool:
    """Whether a callable reads attributes that its arguments name, so that it is not handed over."""
    return any(function is each for each in _READING)


_READING = (
    getattr,
    vars,
    delattr,
    object.__getattribute__,
    type.__getattribute__,
    str.format,
    str.format_map,
)


def sees_everything(function: object) -> bool:
    """Whether a function reaches objects, frames or memory that no rule sees."""
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module not in _SEEING:
        return False
    names = _SEEING[module]
    return names is None or name in names


def is_table_of_process(value: object) -> bool:
    """Whether an object holds what is the same for the whole process: its modules, its environment."""
    return any(value is each for each in (os.environ, sys.modules, sys.path, sys.meta_path, sys.path_hooks))


def matched_names_are_public(kind: object) -> bool:
    """Whether a class pattern with positions reads public attributes only."""
    if not isinstance(kind, type):
        return True
    if type(kind) is not type and runs_step_code(type(kind)):
        return False
    names = next((vars(each)[MATCHED] for each in kind.__mro__ if MATCHED in vars(each)), ())
    return are_public(names)


MATCHED = "__match_args__"


def are_public(names: object) -> bool:
    """Whether names of attributes, in a tuple, are public."""
    if type(names) is not tuple:
        return False
    given = cast("tuple[object, ...]", names)
    return all(type(each) is str and not has_private_name(each) for each in given)


def _is_harmless(name: str) -> bool:
    is_special = name.startswith("__") and name.endswith("__")
    return is_special and name not in _CODE_PARTS | _STATE_PARTS and name != VARIABLES


def _is_part_of_library(owner: object, name: str) -> bool:
    """Whether the library gives an object this attribute; of its own, all but those made to be set."""
    kinds = type(owner).__mro__
    own = [kind for kind in kinds if _is_in_package(vars(kind).get("__module__"))]
    if not own:
        return False
    declared = next((vars(kind)[name] for kind in kinds if name in vars(kind)), None)
    if isinstance(declared, property) and declared.fset is not None and not name.startswith("_"):
        return False
    if kinds[0] in own or name.startswith("_") or not name:
        return True
    return any(name in vars(kind) or name in inspect.get_annotations(kind) for kind in own)


def _is_class_of(owner: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(owner, type) and issubclass(owner, kinds)


def _is_module(owner: object) -> bool:
    return isinstance(owner, types.ModuleType)


_MADE: "weakref.WeakSet[type]" = weakref.WeakSet()
"""Classes that code of steps has made."""


def note_class(kind: object) -> None:
    """Note that code of a step has made a class, whose attributes it may change."""
    if isinstance(kind, type):
        _MADE.add(kind)


def _is_class_of_step(kind: type) -> bool:
    return any(
        each in _MADE
        or any(isinstance(one, types.FunctionType) and is_step_function(one) for one in vars(each).values())
        for each in kind.__mro__[:-1]
    )


def _is_in_package(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == _PACKAGE
