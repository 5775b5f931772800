"""From the definition of a natural function to one whose blocks run.

Blocks of the function itself become statements. Functions defined inside it keep their blocks, which their
own decorator transforms when it runs; here they only get mentions of the variables that their blocks use, so
that Python makes the cells.
"""

import ast
import sys
from collections.abc import Iterable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from ..types.outcomes import OUTCOME_KINDS, OutcomeKind
from .blocks import (
    NaturalLiteral,
    ParsedLiteral,
    annotation_members,
    annotation_names,
    literal_parts,
    natural_literal,
    parse_literal,
)
from .program import find_tokens, root_name
from .scope import FunctionNode, function_scope, parameter_names
from .tree import (
    block_statements,
    call_statement,
    chosen_names,
    committed_statements,
    end_statement,
    is_docstring,
    map_bodies,
    name_references,
    own_statements,
    replaced,
    return_statement,
)


class RewrittenFunction(Struct, frozen=True, kw_only=True):
    """A function whose blocks are statements.

    Args:
        node: The new definition: no annotations, no defaults and no decorators, which the original already
            evaluated.
        literals: The parsed literals of its blocks, in the order of the source.
        returned_names: The variables that it returns as they stand; see `returned_as_they_stand`.
    """

    node: FunctionNode
    literals: tuple[ParsedLiteral, ...]
    returned_names: frozenset[str] = frozenset()


class Position(Struct, frozen=True, kw_only=True):
    """The syntax that encloses a statement, as far as it matters for a block.

    Args:
        is_in_loop: Whether `break` and `continue` have a loop to steer.
        may_return: Whether `return` is legal.
        ends_function: Whether the function ends after the statement.
        handled: The types in the `except` clauses around the statement, innermost first.
    """

    is_in_loop: bool = False
    may_return: bool = True
    ends_function: bool = True
    handled: tuple[ast.expr, ...] = ()

    @property
    def allowed_kinds(self) -> tuple[OutcomeKind, ...]:
        """The syntactic cap on outcomes (specification 8.4), in the order of `OUTCOME_KINDS`."""
        legal = {"return": self.may_return, "break": self.is_in_loop, "continue": self.is_in_loop}
        return tuple(kind for kind in OUTCOME_KINDS if legal.get(kind, True))

    def inside(self, statement: ast.stmt, body: str) -> "Position":
        """Return the position inside one body of a compound statement.

        The `else` of a loop is outside the loop. Python forbids leaving an `except*` handler with `return`,
        `break` or `continue`, but a loop inside the handler can be steered.
        """
        if body == "body" and isinstance(statement, ast.For | ast.AsyncFor | ast.While):
            return replace(self, is_in_loop=True, ends_function=False)
        if not isinstance(statement, ast.Try | ast.TryStar):
            return self
        goes_on = bool(statement.finalbody) or (body == "body" and bool(statement.orelse))
        position = replace(self, ends_function=False) if goes_on else self
        if body == "body":
            types = tuple(handler.type for handler in statement.handlers if handler.type is not None)
            position = replace(position, handled=(*types, *position.handled))
        if body == "handlers" and isinstance(statement, ast.TryStar):
            return replace(position, is_in_loop=False, may_return=False)
        return position


def rewrite_function(
    node: FunctionNode,
    *,
    filename: str,
    is_generator: bool,
    closure_names: frozenset[str],
    hidden_names: frozenset[str],
) -> RewrittenFunction:
    """Rewrite the definition of a natural function.

    Args:
        node: The definition, which is left as it is.
        filename: The source file, for errors.
        is_generator: Whether the function is a generator or an async generator.
        closure_names: The variables that the original closes over; the new function closes over them too.
        hidden_names: Names that blocks of nested functions mention, but that must get no cell.

    Raises:
        NaturalParseError: A block is malformed.
    """
    is_async = isinstance(node, ast.AsyncFunctionDef)
    has_promise = node.returns is not None and not is_generator
    returned_names = returned_as_they_stand(node) if has_promise else frozenset[str]()
    committed = _variables_to_return(node, returned_names, is_generator=is_generator)
    rewriter = _BodyRewriter(
        filename=filename,
        is_async=is_async,
        is_generator=is_generator,
        hidden_names=hidden_names,
        committed=frozenset(committed),
        has_promise=node.returns is not None,
    )
    docstring = node.body[:1] if is_docstring(node.body[0]) else []
    is_plain_docstring = bool(docstring) and natural_literal(node.body[0]) is None
    inner = rewriter.rewrite_body(node.body[1:] if is_plain_docstring else node.body, Position())
    inner += name_references(closure_names, node.body[-1])
    if node.returns is not None and not (is_async and is_generator):
        inner.append(end_statement(node.body[-1]))
    if rewriter.literals:
        inner = [*committed_statements(committed, node.body[0]), *inner]
        inner = [call_statement(inner, node, is_async=is_async, is_generator=is_generator)]
    new_node = _bare_definition(node, body=[*docstring, *rewriter.declarations, *inner])
    return RewrittenFunction(node=new_node, literals=tuple(rewriter.literals), returned_names=returned_names)


class _BodyRewriter(Struct, kw_only=True):
    """Rewrites the statements of one function and collects its literals and names."""

    filename: str
    is_async: bool
    is_generator: bool
    hidden_names: frozenset[str]
    committed: frozenset[str]
    has_promise: bool
    literals: list[ParsedLiteral] = field(default_factory=list[ParsedLiteral])
    declarations: list[ast.stmt] = field(default_factory=list[ast.stmt])

    def rewrite_body(self, body: list[ast.stmt], position: Position) -> list[ast.stmt]:
        inside = replace(position, ends_function=False)
        last = _last_position(body)
        return [
            new
            for place, statement in enumerate(body)
            for new in self._rewrite(statement, position if place == last else inside)
        ]

    def _rewrite(self, statement: ast.stmt, position: Position) -> list[ast.stmt]:
        literal = natural_literal(statement)
        if literal is not None:
            return self._rewrite_literal(literal, position)
        if isinstance(statement, ast.Global | ast.Nonlocal):
            # A write binding above the declaration is text for Python but an assignment here: declare first.
            self.declarations.append(statement)
            return [ast.copy_location(ast.Pass(), statement)]
        if isinstance(statement, ast.Return):
            may_have_value = not (self.is_async and self.is_generator)
            if not may_have_value:
                return [statement]
            if not self.has_promise:
                return [return_statement(statement)]
            return [return_statement(statement, self.committed)]
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return [_with_mentions(statement, self.hidden_names)]
        return [
            map_bodies(
                statement, lambda body, name: self.rewrite_body(body, position.inside(statement, name))
            )
        ]

    def _rewrite_literal(self, literal: NaturalLiteral, position: Position) -> list[ast.stmt]:
        parsed = parse_literal(
            literal,
            position.allowed_kinds,
            ends_function=position.ends_function,
            filename=self.filename,
            handled_errors=tuple(dict.fromkeys(paths_of_types(position.handled))),
        )
        index = len(self.literals)
        self.literals.append(parsed)
        return block_statements(
            parsed,
            index=index,
            is_async=self.is_async,
            is_generator=self.is_generator,
            committed=self.committed,
        )


def paths_of_types(types: Iterable[ast.expr]) -> Iterator[str]:
    """The names and dotted paths by which `except` clauses name the types that they handle."""
    for each in types:
        match each:
            case ast.Tuple(elts=members):
                yield from paths_of_types(members)
            case ast.Starred(value=members):
                yield from paths_of_types((members,))
            case ast.Name() | ast.Attribute():
                path = ast.unparse(each)
                if all(part.isidentifier() for part in path.split(".")):
                    yield path
            case _:
                continue


def _variables_to_return(
    node: FunctionNode, returned_names: frozenset[str], *, is_generator: bool
) -> dict[str, bool]:
    """The variables that a function returns by name, and whose annotation promises what it returns.

    Returns:
        For each whether it is a parameter.
    """
    promise = _promise_of_generator(node) if is_generator else node.returns
    if promise is None:
        return {}
    returned = {
        name
        for statement in own_statements(node.body)
        if isinstance(statement, ast.Return)
        for name in chosen_names(statement.value)
    }
    if not returned:
        return {}
    arguments = node.args
    parameters = {
        each.arg: each.annotation
        for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        if each.annotation is not None
    }
    declared: dict[str, ast.expr] = {**parameters, **function_scope(node).annotations}
    declared |= dict.fromkeys(returned_names, promise)
    promised = annotation_members(promise)
    return {
        name: name in parameters
        for name in sorted(returned & declared.keys())
        if annotation_members(declared[name]) <= promised
    }


def returned_as_they_stand(node: FunctionNode) -> frozenset[str]:
    """The variables without a type that one block sets, and that the function only returns.

    Their values must be of the type that the function returns. Before the block they may be None or unset.
    """
    scope = function_scope(node)
    set_once = _set_by_one_block(node) - scope.annotations.keys() - scope.global_names - scope.nonlocal_names
    set_once -= set(parameter_names(node.args))
    allowed: set[int] = set()
    for statement in own_statements(node.body):
        match statement:
            case ast.Return(value=ast.Name() as name):
                allowed.add(id(name))
            case ast.Assign(
                targets=targets,
                value=ast.Constant(value=None) | ast.Name(id="unset") | ast.Attribute(attr="unset"),
            ):
                allowed.update(id(target) for target in targets if isinstance(target, ast.Name))
            case _:
                continue
    names = [each for statement in node.body for each in ast.walk(statement) if isinstance(each, ast.Name)]
    used = {each.id for each in names if id(each) not in allowed}
    returned = {each.id for each in names if id(each) in allowed and isinstance(each.ctx, ast.Load)}
    return frozenset(set_once & returned - used)


def _set_by_one_block(node: FunctionNode) -> set[str]:
    """The variables that one block of a function sets, and that no other one mentions."""
    statements = list(own_statements(node.body))
    literals = [literal for statement in statements if (literal := natural_literal(statement)) is not None]
    mentions: list[set[str]] = []
    written: set[str] = set()
    for literal in literals:
        tokens = [
            token for text in literal_parts(literal) for token in find_tokens(text) if token.is_reference
        ]
        mentions.append({root_name(token.path) for token in tokens})
        written.update(token.path for token in tokens if token.is_write)
    return {name for name in written if sum(name in each for each in mentions) == 1}


def _promise_of_generator(node: FunctionNode) -> ast.expr | None:
    """The third argument of `Generator[…]`, the type of what the generator returns."""
    match node.returns:
        case ast.Subscript(slice=ast.Tuple(elts=[_, _, returned])):
            return returned
        case _:
            return None


def _last_position(body: list[ast.stmt]) -> int:
    """The position of the last statement of a body that does more than end it with None."""
    return max((place for place, statement in enumerate(body) if not _is_idle(statement)), default=-1)


def _is_idle(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Global() | ast.Nonlocal():
            return True
        case ast.Return(value=None | ast.Constant(value=None)):
            return True
        case ast.Expr(value=ast.Constant()):
            return natural_literal(statement) is None
        case _:
            return False


def _with_mentions(statement: ast.stmt, hidden_names: frozenset[str]) -> ast.stmt:
    """Make every function in a statement mention in code the names that its blocks mention in text."""
    new = map_bodies(statement, lambda body, _: [_with_mentions(child, hidden_names) for child in body])
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return new
    assert isinstance(new, ast.FunctionDef | ast.AsyncFunctionDef)
    references = name_references(_mentioned_names(statement) - hidden_names, statement.body[-1])
    return replaced(new, body=[*new.body, *references]) if references else new


def _mentioned_names(node: FunctionNode) -> set[str]:
    """Return the variables that the blocks of a function read, and the names in its bindings' annotations."""
    literals = [literal for statement in own_statements(node.body) if (literal := natural_literal(statement))]
    tokens = [token for literal in literals for text in literal_parts(literal) for token in find_tokens(text)]
    names = {root_name(token.path) for token in tokens if token.is_reference and not token.is_write}
    written = {token.path for token in tokens if token.is_reference and token.is_write}
    annotations = function_scope(node).annotations if written else {}
    for name in written & annotations.keys():
        names.update(annotation_names(annotations[name]))
    return names


def _bare_definition(node: FunctionNode, *, body: list[ast.stmt]) -> FunctionNode:
    """Return a definition with a new body, without the parts that are evaluated at definition."""
    changes: dict[str, object] = {"args": _bare_arguments(node.args), "returns": None, "body": body}
    if node.decorator_list:  # the first line of a decorated function is that of its first decorator: keep it
        changes["decorator_list"] = [ast.copy_location(ast.Constant(value=None), node.decorator_list[0])]
    if sys.version_info >= (3, 12):
        changes["type_params"] = []
    return replaced(node, **changes)


def _bare_arguments(arguments: ast.arguments) -> ast.arguments:
    def bare(argument: ast.arg) -> ast.arg:
        return replaced(argument, annotation=None)

    return ast.arguments(
        posonlyargs=[bare(argument) for argument in arguments.posonlyargs],
        args=[bare(argument) for argument in arguments.args],
        vararg=None if arguments.vararg is None else bare(arguments.vararg),
        kwonlyargs=[bare(argument) for argument in arguments.kwonlyargs],
        kw_defaults=[None for _ in arguments.kwonlyargs],
        kwarg=None if arguments.kwarg is None else bare(arguments.kwarg),
        defaults=[],
    )
