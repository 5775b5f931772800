"""Everything static about one natural block, and the blocks among the statements of a syntax tree.

Made once, when the function is decorated; the runtime reads it at every step.

A block is an expression statement that is a string literal or an f-string starting with the sentinel
(specification 6). The code that walks the tree decides where such a statement may be.
"""

import ast
import re
from collections.abc import Mapping
from functools import cached_property
from types import CodeType
from typing import TypeAlias

from msgspec import Struct

from ..errors import NaturalParseError
from ..types.outcomes import OutcomeKind
from .named_types import types_beside
from .program import (
    SENTINEL,
    Bindings,
    NaturalProgram,
    parse_bindings,
    parse_program,
    permitted_kinds,
    program_body,
)

NaturalLiteral: TypeAlias = ast.Constant | ast.JoinedStr

_VALUE = "\ufdd0"
"""Represents an interpolated value; a noncharacter, which no source text uses."""

_BINDING_OF_VALUE = re.compile(rf"(?<!\\)<(?::[^<>\n]*{_VALUE}[^<>\n]*|[\w.]*{_VALUE}[\w.{_VALUE}]*)>")


def natural_literal(statement: ast.stmt) -> NaturalLiteral | None:
    """Return the literal of a natural block, or None when a statement is none.

    Bytes and template strings are no string literals here; concatenated literals are joined as Python joins
    them.

    Args:
        statement: Any statement.
    """
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant | ast.JoinedStr):
        return None
    opening = _opening(statement.value)
    return statement.value if isinstance(opening, str) and opening.startswith(SENTINEL) else None


def literal_parts(literal: NaturalLiteral) -> tuple[str, ...]:
    """Return the author's text of a literal: for an f-string, the texts between the interpolations.

    Args:
        literal: The literal of a natural block.
    """
    parts = literal.values if isinstance(literal, ast.JoinedStr) else [literal]
    values = (part.value for part in parts if isinstance(part, ast.Constant))
    return tuple(value for value in values if isinstance(value, str))


def literal_template(literal: NaturalLiteral) -> tuple[tuple[str | None, ...], tuple[str, ...]]:
    """Return the parts of an f-string, None for each interpolation, and the interpolations as written.

    Args:
        literal: The literal of a natural block.

    Returns:
        Both empty for a plain literal.
    """
    if not isinstance(literal, ast.JoinedStr):
        return (), ()
    parts = [part.value if isinstance(part, ast.Constant) else None for part in literal.values]
    values = [part for part in literal.values if not isinstance(part, ast.Constant)]
    return tuple(None if part is None else str(part) for part in parts), tuple(map(_as_written, values))


def _as_written(value: ast.expr) -> str:
    return ast.unparse(ast.JoinedStr(values=[value]))[2:-1]


def interpolated_binding(literal: NaturalLiteral) -> str | None:
    """Return the first binding of an f-string whose name is a value, as written; None for none.

    Args:
        literal: The literal of a natural block.
    """
    if not isinstance(literal, ast.JoinedStr):
        return None
    values = [part for part in literal.values if not isinstance(part, ast.Constant)]
    text = "".join(str(part.value) if isinstance(part, ast.Constant) else _VALUE for part in literal.values)
    match = _BINDING_OF_VALUE.search(text)
    if match is None:
        return None
    written = match[0]
    for part in values[text[: match.start()].count(_VALUE) :][: written.count(_VALUE)]:
        written = written.replace(_VALUE, _as_written(part), 1)
    return written


def _opening(literal: NaturalLiteral) -> object:
    """Return the constant that a literal begins with, or None when it begins with an interpolation."""
    first = literal.values[0] if isinstance(literal, ast.JoinedStr) and literal.values else literal
    return first.value if isinstance(first, ast.Constant) else None


class RenderedText(str):
    """The text of an f-string block at run time.

    Attributes:
        interpolated: The interpolated values as they stand in the text, in order.
    """

    __slots__ = ("interpolated",)
    interpolated: tuple[str, ...]

    @classmethod
    def of(cls, template: tuple[str | None, ...], interpolated: tuple[str, ...]) -> "RenderedText":
        """Fill the interpolated values into the parts of a literal."""
        values = iter(interpolated)
        text = cls("".join(next(values) if part is None else part for part in template))
        text.interpolated = interpolated
        return text


class NaturalBlock(Struct, frozen=True, kw_only=True, dict=True):
    """One natural block of one function.

    Args:
        filename: The source file.
        line: The line of the literal in that file.
        module: The name of the function's module.
        function_name: The qualified name of the function.
        number: Its place among the blocks of the function, counted from 1.
        is_async: Whether the function is `async def`.
        allowed_kinds: The outcome kinds that the syntax around the block allows, in the order of
            `OUTCOME_KINDS`.
        ends_function: Whether the function ends after the block, without another statement.
        program: The program; None for an f-string, whose text exists only when the block runs.
        read_names: The names of its read bindings `<name>`.
        write_names: The names of its write bindings `<:name>`.
        named: Every name that its author wrote in angle brackets; of a dotted one, the first part.
        local_names: The local variables of the function, captured ones included.
        free_names: The variables of enclosing functions that the transformed function closes over.
        annotations: For a write binding that the function's body annotates, the compiled annotation.
        named_types: For a write binding, the name that the text gives as its type; see `named_types`.
        references: Names and dotted paths that its author wrote in angle brackets.
        parameters: The parameters of the function.
        template: The parts of an f-string, None for each interpolation; empty for a plain literal.
        interpolations: The interpolations as written.
        handled_errors: The types in the `except` clauses around it, as names and dotted paths, innermost
            first.
        returned_names: The write bindings without a type that the function returns as they stand.
    """

    filename: str
    line: int
    module: str
    function_name: str
    number: int
    is_async: bool
    allowed_kinds: tuple[OutcomeKind, ...]
    ends_function: bool
    program: NaturalProgram | None
    read_names: tuple[str, ...]
    write_names: tuple[str, ...]
    named: frozenset[str]
    local_names: frozenset[str]
    free_names: frozenset[str]
    annotations: Mapping[str, CodeType]
    named_types: Mapping[str, str]
    references: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    template: tuple[str | None, ...] = ()
    interpolations: tuple[str, ...] = ()
    handled_errors: tuple[str, ...] = ()
    returned_names: frozenset[str] = frozenset()

    @cached_property
    def step_id(self) -> str:
        """The step id of its executions, `python_module:line` (specification 10.1)."""
        return f"{self.module}:{self.line}"

    @cached_property
    def address(self) -> str:
        """Its address, `python_module:function:number`, independent of lines and folders."""
        return f"{self.module}:{self.function_name}:{self.number}"


class ParsedLiteral(Struct, frozen=True, kw_only=True):
    """The content of one natural literal by itself.

    Args:
        literal: The literal.
        allowed_kinds: The outcome kinds that the syntax around it allows.
        ends_function: Whether the function ends after the block.
        program: The program; None for an f-string.
        bindings: The bindings that the author wrote.
        named_types: For a write binding, the name that the text gives as its type; see `named_types`.
        handled_errors: The types in the `except` clauses around the block, as names and dotted paths,
            innermost first.
    """

    literal: NaturalLiteral
    allowed_kinds: tuple[OutcomeKind, ...]
    ends_function: bool
    program: NaturalProgram | None
    bindings: Bindings
    named_types: Mapping[str, str]
    handled_errors: tuple[str, ...] = ()


def parse_literal(
    literal: NaturalLiteral,
    allowed_kinds: tuple[OutcomeKind, ...],
    *,
    ends_function: bool,
    filename: str,
    handled_errors: tuple[str, ...] = (),
) -> ParsedLiteral:
    """Parse the static content of a literal.

    Args:
        literal: The literal of a natural block.
        allowed_kinds: The outcome kinds that the syntax around the block allows.
        ends_function: Whether the function ends after the block.
        filename: The source file.
        handled_errors: The types in the `except` clauses around the block.

    Raises:
        NaturalParseError: A binding or the frontmatter is malformed, or the frontmatter denies everything.
    """
    line = literal.lineno
    texts = literal_parts(literal)
    program = None
    if isinstance(literal, ast.Constant):
        program = parse_program(texts[0], filename=filename, line=line)
        permitted_kinds(allowed_kinds, program, filename=filename, line=line)
        texts = (program_body(texts[0], filename=filename, line=line),)
    if (binding := interpolated_binding(literal)) is not None:
        raise NaturalParseError(_interpolation_message(binding), filename=filename, line=line)
    try:
        bindings = parse_bindings(texts)
    except ValueError as error:
        raise NaturalParseError(str(error), filename=filename, line=line) from error
    return ParsedLiteral(
        literal=literal,
        allowed_kinds=allowed_kinds,
        ends_function=ends_function,
        program=program,
        bindings=bindings,
        named_types=types_beside(texts),
        handled_errors=handled_errors,
    )


def _interpolation_message(binding: str) -> str:
    kind, example = ("write", "<:total>") if binding.startswith("<:") else ("read", "<total>")
    return (
        f"the {kind} binding {binding} has an interpolated name, but bindings are what the block's author "
        f"wrote, not values: write the name of the variable, {example} for example; where text is meant, "
        f"escape it as \\{binding}"
    )


def annotation_expression(name: str, annotation: ast.expr, *, filename: str) -> ast.expr:
    """Return the expression of an annotation; one that is written as a string is parsed.

    Args:
        name: The annotated write binding, for errors.
        annotation: The annotation.
        filename: The source file, for errors.

    Raises:
        NaturalParseError: A string annotation is no expression.
    """
    if not isinstance(annotation, ast.Constant) or not isinstance(annotation.value, str):
        return annotation
    try:
        expression = ast.parse(annotation.value.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        message = f"the annotation {annotation.value!r} of the write binding <:{name}> is no expression"
        raise NaturalParseError(message, filename=filename, line=annotation.lineno) from error
    ast.increment_lineno(expression, annotation.lineno - expression.lineno)
    return expression


def annotation_names(annotation: ast.expr) -> set[str]:
    """Return the variables that an annotation names; none when it is a string that is no expression.

    Args:
        annotation: The annotation.
    """
    try:
        expression = annotation_expression("", annotation, filename="")
    except NaturalParseError:  # reported by the function whose annotation it is
        return set()
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


def annotation_members(annotation: ast.expr) -> frozenset[str]:
    """Return the types of which an annotation is the union, in a form that can be compared.

    Args:
        annotation: The annotation.
    """
    match annotation:
        case ast.Constant(value=str(text)):
            try:
                return annotation_members(ast.parse(text.strip(), mode="eval").body)
            except SyntaxError:
                return frozenset((ast.dump(annotation),))
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return annotation_members(left) | annotation_members(right)
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner) if name in (
            "Optional",
            "Union",
        ):
            members = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            none = (
                frozenset((ast.dump(ast.Constant(value=None)),)) if name == "Optional" else frozenset[str]()
            )
            return none.union(*map(annotation_members, members))
        case _:
            return frozenset((ast.dump(annotation),))


_WORD = SENTINEL.strip()


def text_of(expression: ast.expr) -> str | None:
    """The text with which a string or f-string begins; None for another expression."""
    if isinstance(expression, ast.JoinedStr):
        parts = literal_parts(expression)
        return parts[0] if parts and isinstance(expression.values[0], ast.Constant) else None
    value = expression.value if isinstance(expression, ast.Constant) else None
    return value if isinstance(value, str) else None


def sentinel_problem(text: str, *, is_natural: bool) -> str | None:
    """The reason why a text that is nearly a block is none; None for a block, and for other texts."""
    first, newline, _ = text.lstrip("\n").partition("\n")
    if first.strip().casefold() == _WORD:
        if text.startswith("\n"):
            return "there is a line break before 'natural'"
        if not newline:
            return "nothing follows 'natural'" if is_natural else None
        return f"the first line is {first!r}, not 'natural'"
    word = re.match(rf"\s*{_WORD}\b[\s:.-]", first, re.IGNORECASE)
    return "there is text on the line of 'natural'" if word and is_natural else None
