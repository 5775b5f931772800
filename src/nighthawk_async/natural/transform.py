"""From a function with natural blocks to one that runs them: the entry point of this package.

The work is done once per code object. A nested natural function is decorated at every call of the enclosing
function, and then only bound to its new closure.
"""

import ast
import inspect
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import CellType, CodeType, FunctionType
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from ..errors import NaturalParseError
from ..types.outcomes import OutcomeKind
from .blocks import (
    NaturalBlock,
    ParsedLiteral,
    RenderedText,
    annotation_expression,
    annotation_names,
    literal_template,
    sentinel_problem,
    text_of,
)
from .program import root_name
from .rewrite import rewrite_function
from .scope import FunctionNode, FunctionScope, NestedBlock, function_scope, mangle, nested_blocks
from .source import compile_expression, compile_function, find_function, skeleton_names, skeleton_scopes
from .tree import CLOSURE_NAMES, own_statements

Result = TypeVar("Result")

_MAXIMUM_FUNCTIONS = 2048
_GENERATOR_FLAGS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_ASYNC_FLAGS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class StepResult(Protocol):
    """A finished step, as the transformed code sees it."""

    @property
    def kind(self) -> OutcomeKind:
        """The outcome's kind; one that the block's syntax allows."""
        ...

    @property
    def bindings(self) -> Mapping[str, object]:
        """The values to commit, by the names of write bindings."""
        ...

    @property
    def return_value(self) -> object:
        """The value to return; read for the kind `return` only."""
        ...

    @property
    def exception(self) -> BaseException | None:
        """The exception to raise; read for the kind `raise` only."""
        ...


class CallScope(Protocol):
    """Context manager of one call of a function; of a generator, from its first value to its end."""

    @property
    def around(self) -> "AroundCall | None":
        """The policies around the call, which then make it; None for none, and not read for a generator."""
        ...

    def returned(
        self, value: object, is_declared: bool = False, owner: object = None, attribute: str = ""
    ) -> object:
        """Return the validated value of a `return` statement.

        Args:
            value: The value.
            is_declared: Whether the statement names a variable that had the type of the value already.
            owner: The function that the statement calls, or the object whose attribute it calls.
            attribute: The name of that attribute; empty for none.
        """
        ...

    def concluded(self, value: Result) -> Result:
        """Record the return value of a block, which is validated already, and return it."""
        ...

    def fell_off(self) -> object:
        """Return the validated None of a function that reaches its end."""
        ...


class AroundCall(Protocol):
    """One call that policies are around. They make it in another function with the same code."""

    async def call(self) -> object:
        """Make the call of an `async def` function, and return its value."""
        ...

    def call_from_sync(self) -> object:
        """Make the call of a `def` function, and return its value."""
        ...


class CallEntry(Protocol):
    """Creates the context managers of a function's calls."""

    @property
    def is_watched(self) -> bool:
        """Whether observers or policies want the arguments."""
        ...

    def __call__(self, arguments: Mapping[str, object] | None) -> AbstractContextManager[CallScope]:
        """Make the context manager of one call.

        Args:
            arguments: The local variables with which the function begins; None when nobody wants them.
        """
        ...


class TransformedFunction(Struct, frozen=True, kw_only=True):
    """A natural function, compiled but not bound to its variables.

    Args:
        code: The new code.
        blocks: The natural blocks of the function, in the order of the source; `run_step` gets their
            positions.
        nested: The functions and classes inside it that have blocks of their own.
        mentioned_names: Names that the blocks read, or that annotate their write bindings, and that are
            neither local nor free: they are globals, or variables of an enclosing function that Python made
            no cell for.
    """

    code: CodeType
    blocks: tuple[NaturalBlock, ...]
    nested: tuple[NestedBlock, ...]
    mentioned_names: frozenset[str]

    def bind(
        self,
        function: FunctionType,
        *,
        run_step: Callable[[int, dict[str, Any], str | None], Any],
        call_entry: CallEntry,
    ) -> FunctionType:
        """Make the function that runs the blocks.

        It has the live globals and the cells of the original, and is a coroutine function, generator or async
        generator as the original is.

        Args:
            function: The original function, with the code that was transformed.
            run_step: Runs a block. Gets its position, the result of `locals()` at the block, with the context
                manager of the call as `SCOPE_NAME`, and the `RenderedText` when it is an f-string, else None.
                Returns a `StepResult`; in an `async def` function, an awaitable of one.
            call_entry: The entry of each call.
        """
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        own = (self._rendering(run_step), locals, call_entry)
        cells |= {name: CellType(value) for name, value in zip(CLOSURE_NAMES, own, strict=True)}
        closure = tuple(cells[name] for name in self.code.co_freevars)
        bound = FunctionType(
            self.code, function.__globals__, function.__name__, function.__defaults__, closure
        )
        copy_attributes(function, bound)
        bound.__dict__["__wrapped__"] = function
        return bound

    def _rendering(
        self, run_step: Callable[[int, dict[str, Any], str | None], Any]
    ) -> Callable[[int, dict[str, Any], Any], Any]:
        """The function that the generated code calls, with the interpolated values of f-strings."""
        templates = tuple(block.template for block in self.blocks)
        if not any(templates):
            return run_step

        def run_rendered(
            index: int, python_locals: dict[str, Any], interpolated: tuple[str, ...] | None
        ) -> Any:
            text = None if interpolated is None else RenderedText.of(templates[index], interpolated)
            return run_step(index, python_locals, text)

        return run_rendered


_lock = threading.RLock()  # a finalizer may decorate in the middle of a decoration
_transformed_functions: OrderedDict[tuple[int, str, str], tuple[CodeType, TransformedFunction]] = (
    OrderedDict()
)


def transform_function(function: FunctionType) -> TransformedFunction:
    """Compile a function with natural blocks (specification 5.1 and 6).

    Args:
        function: A plain function: one that `staticmethod` or `classmethod` wraps, not the wrapper.

    Raises:
        NaturalParseError: The function has no natural block, a block is malformed, or the source is not
            available.
    """
    if not isinstance(function, FunctionType):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise NaturalParseError(
            f"a natural function must be a plain Python function, not {type(function).__name__}"
        )
    code = function.__code__
    # By identity: equal code can come from different texts, because inline literals do not appear in it.
    key = (id(code), function.__qualname__, function.__module__)
    with _lock:
        known = _transformed_functions.get(key)
        if known is None:
            with _silent_compiler():
                known = (code, _transform(function))
            _transformed_functions[key] = known
        _transformed_functions.move_to_end(key)
        if len(_transformed_functions) > _MAXIMUM_FUNCTIONS:
            _transformed_functions.popitem(last=False)
    return known[1]


@contextmanager
def _silent_compiler() -> Generator[None]:
    """Suppress a second warning from Python about source that it has compiled before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _transform(function: FunctionType) -> TransformedFunction:
    original = function.__code__
    _refuse_hopeless(function)
    source = find_function(function)
    scope = function_scope(source.node)
    scopes = skeleton_scopes(source, original)
    closure_names = frozenset(filter(str.isidentifier, original.co_freevars))
    rewritten = rewrite_function(
        source.node,
        filename=original.co_filename,
        is_generator=bool(original.co_flags & _GENERATOR_FLAGS),
        closure_names=closure_names,
        hidden_names=skeleton_names(scopes, source.node) - closure_names - scope.local_names,
    )
    nested = nested_blocks(source.node)
    if not rewritten.literals:
        raise _no_block(function, source.node, nested)
    code = compile_function(rewritten.node, scopes=scopes, original=original)
    scope.bound_names.update(name for parsed in rewritten.literals for name in parsed.bindings.write_names)
    local_names = frozenset(mangle(name, source.class_name) for name in scope.local_names)
    free_names = frozenset(code.co_freevars).difference(CLOSURE_NAMES)
    annotations = _annotations_of_bindings(rewritten.literals, scope, filename=original.co_filename)
    blocks = tuple(
        _make_block(
            function,
            parsed,
            number,
            local_names=local_names,
            free_names=free_names,
            annotations=annotations,
            returned_names=rewritten.returned_names,
        )
        for number, parsed in enumerate(rewritten.literals, 1)
    )
    mentioned = _mentioned_names(rewritten.literals, annotations.values())
    return TransformedFunction(
        code=code,
        blocks=blocks,
        nested=nested,
        mentioned_names=mentioned - local_names - free_names - scope.global_names,
    )


def _refuse_hopeless(function: FunctionType) -> None:
    """Raise for functions that no source could make natural."""
    code = function.__code__
    if code.co_name == "<lambda>":
        message = "a lambda cannot be a natural function: it has no statements; use def"
    elif CLOSURE_NAMES[0] in code.co_freevars:
        message = f"{function.__qualname__}() is a natural function already"
    else:
        return
    raise NaturalParseError(message, filename=code.co_filename, line=code.co_firstlineno)


def _no_block(function: FunctionType, node: FunctionNode, nested: Sequence[NestedBlock]) -> NaturalParseError:
    message = (
        f"{function.__qualname__}() has no natural block: a docstring or a string statement whose first line "
        "is exactly 'natural'; put @natural_function nearest to the function, below other decorators"
    )
    if nested:
        message += f". The block at line {nested[0].line} is that of {nested[0].name}, inside of it"
    code = function.__code__
    for statement in own_statements(node.body):
        text = text_of(statement.value) if isinstance(statement, ast.Expr) else None
        if text is not None and (problem := sentinel_problem(text, is_natural=True)):
            message += f". The text at line {statement.lineno} is none: {problem}; begin it with 'natural\\n'"
            break
    return NaturalParseError(message, filename=code.co_filename, line=code.co_firstlineno)


def _annotations_of_bindings(
    literals: Iterable[ParsedLiteral], scope: FunctionScope, *, filename: str
) -> dict[str, ast.expr]:
    """Return the annotations, in the function's own body, of variables that its blocks write or read."""
    names = {
        name for parsed in literals for name in (*parsed.bindings.write_names, *parsed.bindings.read_names)
    }
    return {
        name: annotation_expression(name, annotation, filename=filename)
        for name, annotation in scope.annotations.items()
        if name in names
    }


def _mentioned_names(literals: Iterable[ParsedLiteral], annotations: Iterable[ast.expr]) -> frozenset[str]:
    read = {root_name(path) for parsed in literals for path in parsed.bindings.references}
    annotating = {name for annotation in annotations for name in annotation_names(annotation)}
    return frozenset(read | annotating)


def _make_block(
    function: FunctionType,
    parsed: ParsedLiteral,
    number: int,
    *,
    local_names: frozenset[str],
    free_names: frozenset[str],
    annotations: Mapping[str, ast.expr],
    returned_names: frozenset[str],
) -> NaturalBlock:
    code = function.__code__
    template, interpolations = literal_template(parsed.literal)
    return NaturalBlock(
        filename=code.co_filename,
        line=parsed.literal.lineno,
        module=function.__module__ or "<unknown>",
        function_name=function.__qualname__,
        number=number,
        is_async=bool(code.co_flags & _ASYNC_FLAGS),
        allowed_kinds=parsed.allowed_kinds,
        ends_function=parsed.ends_function,
        program=parsed.program,
        read_names=parsed.bindings.read_names,
        write_names=parsed.bindings.write_names,
        named=frozenset(map(root_name, parsed.bindings.references)),
        local_names=local_names,
        free_names=free_names,
        annotations={
            name: compile_expression(annotations[name], original=code)
            for name in dict.fromkeys((*parsed.bindings.write_names, *parsed.bindings.read_names))
            if name in annotations
        },
        named_types=parsed.named_types,
        handled_errors=parsed.handled_errors,
        returned_names=returned_names.intersection(parsed.bindings.write_names),
        references=parsed.bindings.references,
        parameters=parameter_names(code),
        template=template,
        interpolations=interpolations,
    )


def parameter_names(code: CodeType) -> tuple[str, ...]:
    """Return the names of the parameters of a function, `args` and `keywords` included.

    Args:
        code: The code of the function.
    """
    flags = (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS)
    variadic = sum(bool(code.co_flags & flag) for flag in flags)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + variadic]


def copy_attributes(function: FunctionType, bound: FunctionType) -> None:
    """Give a function everything that another one has besides code, globals, defaults and closure.

    Args:
        function: The other function.
        bound: The function that gets its attributes.
    """
    bound.__kwdefaults__ = function.__kwdefaults__ and dict(function.__kwdefaults__)
    bound.__qualname__ = function.__qualname__
    bound.__module__ = function.__module__
    bound.__doc__ = function.__doc__
    if sys.version_info >= (3, 12):
        bound.__type_params__ = function.__type_params__
    annotate = getattr(function, "__annotate__", None)
    if annotate is not None:  # Python 3.14: annotations are evaluated on access
        setattr(bound, "__annotate__", annotate)  # noqa: B010 - older Pythons do not type it
    else:
        bound.__annotations__ = dict(function.__annotations__)
    bound.__dict__.update(function.__dict__)
