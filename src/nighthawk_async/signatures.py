"""Signatures of callables, and the types in annotations.

An annotation may name what is defined later, what exists for type checkers alone, or what only the function
or the class around it knows. So annotations are read without being evaluated, each is resolved by itself when
its type is needed, and decorators keep the values of names that would be gone by then.
"""

import ast
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from types import CodeType, FrameType, FunctionType, MethodType, SimpleNamespace
from typing import Any, ForwardRef, cast, get_args

if sys.version_info >= (3, 14):
    from annotationlib import Format, get_annotations

_NAMES = "__nighthawk_annotation_names__"
"""The attribute of a function with the values of names in its annotations that a decorator has seen."""

HOW_NAMES_ARE_FOUND = "names used in it must exist at run time"
"""The end of errors about annotations that cannot be resolved."""


def read_signature(function: Callable[..., object], *, follow_wrapped: bool = True) -> inspect.Signature:
    """Return the signature of a callable, with annotations that no name can spoil.

    Args:
        function: The callable.
        follow_wrapped: Whether it is the signature of the function that a wrapper says it wraps.

    Raises:
        TypeError: It is no callable.
        ValueError: It has no signature, as some functions written in C.
    """
    if sys.version_info >= (3, 14):
        return inspect.signature(function, follow_wrapped=follow_wrapped, annotation_format=Format.FORWARDREF)
    return inspect.signature(function, follow_wrapped=follow_wrapped)


def read_annotations(owner: Any) -> dict[str, Any]:
    """Return the annotations of a function or a class itself; a name without a value is a `ForwardRef`.

    Args:
        owner: The function or the class.
    """
    if sys.version_info >= (3, 14):
        try:
            return get_annotations(owner)  # Python keeps what it could evaluate
        except Exception:  # a name has no value yet, or an annotation is another expression that raises
            return get_annotations(owner, format=Format.FORWARDREF)
    # Each step reads those of its function.
    return dict(owner.__annotations__) if isinstance(owner, FunctionType) else inspect.get_annotations(owner)


def type_hints(owner: Any) -> dict[str, Any]:
    """Return the types in the annotations of a callable or a class, without those that cannot be resolved.

    Args:
        owner: The callable or the class.
    """
    names = {} if isinstance(owner, type) else names_in_scope(owner)
    try:
        return typing.get_type_hints(owner, localns=names or None, include_extras=True)
    except Exception:  # an annotation is any expression; the others may be fine
        return _each_by_itself(owner, names)


def _each_by_itself(owner: Any, names: Mapping[str, object]) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for each in reversed(owner.__mro__) if isinstance(owner, type) else (find_function(owner),):
        if each is None:
            continue
        if isinstance(each, type):
            names = dict(vars(each))
        for name, annotation in read_annotations(each).items():
            try:
                hint = resolve_references(annotation, globals_of(each), names)
            except Exception:  # it names what exists for type checkers alone
                hints.pop(name, None)
            else:
                hints[name] = type(None) if hint is None else hint
    return hints


def resolve_references(
    annotation: object, global_names: dict[str, Any], local_names: Mapping[str, object]
) -> object:
    """Replace the texts in an annotation, such as `list["Item"]`, with the types they name.

    Args:
        annotation: A type, or the text of one.
        global_names: The globals of its module.
        local_names: Names that hide them.

    Raises:
        Exception: It cannot be resolved: its texts are any expressions.
    """
    texts: set[str] = set()
    while isinstance(annotation, str):
        if annotation in texts:
            raise TypeError(f"the text {annotation!r} names itself")
        texts.add(annotation)
        annotation = eval(_compiled(annotation.strip()), global_names, local_names)
    if annotation is None or (isinstance(annotation, type) and not hasattr(annotation, "__args__")):
        return annotation
    holder = SimpleNamespace(__annotations__={"annotation": annotation})
    return typing.get_type_hints(holder, global_names, local_names, include_extras=True)["annotation"]


@lru_cache(maxsize=1024)
def _compiled(text: str) -> CodeType:
    return compile(text, "<annotation>", "eval", dont_inherit=True)


def names_in_texts(annotation: object) -> Iterator[str]:
    """The names that the texts in an annotation mention; texts that are not expressions mention none.

    Args:
        annotation: A type, or the text of one.
    """
    match annotation:
        case str(text) | ForwardRef(__forward_arg__=text):
            try:
                expression = f"({text},)" if text.lstrip().startswith("*") else text  # of `*args`
                tree = ast.parse(expression.strip(), mode="eval")
            except (SyntaxError, ValueError):
                return
            for node in ast.walk(tree):
                if isinstance(node, ast.Name):
                    yield node.id
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield from names_in_texts(node.value)
        case _:
            for argument in get_args(annotation):
                yield from names_in_texts(argument)


def find_function(function: object) -> FunctionType | None:
    """Return the Python function whose annotations a callable has; None where there is none.

    Args:
        function: The callable: a function, a method, a class, a partial, a wrapper, an object to be called.
    """
    if isinstance(function, FunctionType) and "__wrapped__" not in function.__dict__:
        return function
    found: Any = function
    while True:
        if isinstance(found, partial):
            found = found.func
        elif isinstance(found, MethodType | staticmethod | classmethod):
            found = cast("MethodType", found).__func__
        elif isinstance(found, FunctionType):
            inner = inspect.unwrap(found)
            if inner is found:
                return found
            found = inner
        elif isinstance(found, type):
            found = getattr(found, "__init__", None)  # typed as if it could be called on the class
            return found if isinstance(found, FunctionType) else None
        else:
            found = getattr(found, "__wrapped__", None) or _declared_call(found)
            if not isinstance(found, FunctionType | MethodType):
                return None


def _declared_call(value: object) -> object:
    """Return what the class of an object declares for its calls; None when it cannot be called."""
    return getattr(type(value), "__call__", None)  # noqa: B004


def globals_of(owner: object) -> dict[str, Any]:
    """Return the globals of the module where the annotations of a callable or a class are written.

    Args:
        owner: The callable or the class.
    """
    if isinstance(owner, type):
        return vars(sys.modules.get(owner.__module__, SimpleNamespace()))
    function = find_function(owner)
    return {} if function is None else function.__globals__


def names_in_scope(function: object) -> dict[str, object]:
    """Return the names that annotations of a callable may use beside globals and builtins.

    They are its type parameters, what a decorator kept with `keep_names`, and the variables that it closes
    over.

    Args:
        function: The callable.
    """
    found = find_function(function)
    if found is None:
        return {}
    variables = variables_of(found) if found.__closure__ else {}
    parameters = getattr(found, "__type_params__", ())
    if not parameters and _NAMES not in found.__dict__:
        return variables
    kept: Mapping[str, object] = found.__dict__.get(_NAMES, {})
    return {**{each.__name__: each for each in parameters}, **kept, **variables}


def keep_names(function: object, frame: FrameType | None) -> None:
    """Keep the values that names in a callable's annotations have around it, for when they are resolved.

    Python makes no variable of a function for a name that only the text of an annotation mentions; under
    `from __future__ import annotations` each annotation is a text.

    Args:
        function: The callable that is decorated; one of a module has nothing around it.
        frame: The frame that decorates it, or one that it called.
    """
    found = find_function(function)
    if found is None or "." not in found.__qualname__:
        return
    wanted = {name for each in read_annotations(found).values() for name in names_in_texts(each)}
    wanted -= found.__dict__.get(_NAMES, {}).keys()
    if not wanted:
        return
    seen: dict[str, object] = {}
    for enclosing in enclosing_frames(found.__code__, frame):
        for name in wanted.intersection(enclosing.f_locals):
            seen.setdefault(name, enclosing.f_locals[name])
    if seen:
        found.__dict__[_NAMES] = {**found.__dict__.get(_NAMES, {}), **seen}


def enclosing_frames(code: CodeType, frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames around a function that is being made: those of functions, and that of its class body.

    Args:
        code: The code of the function.
        frame: The innermost frame to look at.
    """
    while frame is not None:
        if _holds(frame.f_code, code):
            if frame.f_code.co_flags & inspect.CO_OPTIMIZED or code in frame.f_code.co_consts:
                yield frame
            code = frame.f_code
        frame = frame.f_back


def _holds(outer: CodeType, code: CodeType) -> bool:
    """Whether a code has another one in it, in functions and classes too."""
    return code in outer.co_consts or any(
        _holds(each, code) for each in outer.co_consts if isinstance(each, CodeType)
    )


def variables_of(function: FunctionType) -> dict[str, object]:
    """The variables that a function closes over, except those without a value.

    Args:
        function: The function.
    """
    variables: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            variables[name] = cell.cell_contents
        except ValueError:
            continue
    return variables
