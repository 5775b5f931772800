"""Mistakes in natural functions that can be seen without running the module.

    NH000  the file is no Python
    NH001  a block is malformed
    NH002  a block uses a name that nothing defines
    NH003  an import is used only by blocks, so a linter may remove it (a note)
    NH004  the first line of a string is nearly `natural`
    NH005  nothing reads the variable that a block sets
    NH006  a type that a block's variable is annotated with does not exist at run time
    NH007  a function has a block and is no natural function
    NH008  a block sets a variable without a type beside a class, so it may keep JSON (a note)
    NH014  a clause around a block handles a type of exceptions that its text does not name (a note)
    NH015  a function returns a variable of a block that has no type (a note)
    NH016  a block reads and sets the same name (a note)

and, in modules that use something durable (see `order_checks`):

    NH009  what arrives first decides
    NH010  a function that runs in parallel changes a variable around it in the order of arrival
    NH011  a function that runs in parallel cancels the others when it is the first
    NH012  the clock or chance decides what an effect or a natural function gets
    NH013  a loop that waits goes over something without an order

A comment `# noqa`, or `# noqa: NH002`, at the end of the line of a finding, or of the last line of its block,
hides it.
"""

import ast
import builtins
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from ..errors import NaturalParseError
from .blocks import (
    ParsedLiteral,
    annotation_names,
    literal_parts,
    natural_literal,
    sentinel_problem,
    text_of,
)
from .named_types import names_beside, words_beside
from .order_checks import OrderCode, find_order_risks
from .program import SENTINEL, find_tokens, root_name
from .rewrite import rewrite_function
from .scope import FunctionNode, FunctionScope, function_scope, parameter_names
from .tree import own_statements

Code: TypeAlias = (
    Literal["NH000", "NH001", "NH002", "NH003", "NH004", "NH005", "NH006", "NH007", "NH008"]
    | OrderCode
    | Literal["NH014", "NH015", "NH016"]
)
Severity: TypeAlias = Literal["error", "warning", "note"]

SEVERITIES: Mapping[Code, Severity] = {
    "NH000": "error",
    "NH001": "error",
    "NH002": "error",
    "NH003": "note",
    "NH004": "warning",
    "NH005": "warning",
    "NH006": "error",
    "NH007": "error",
    "NH008": "note",
    "NH009": "warning",
    "NH010": "warning",
    "NH011": "warning",
    "NH012": "warning",
    "NH013": "warning",
    "NH014": "note",
    "NH015": "note",
    "NH016": "note",
}
"""The severity of each finding. A note is no mistake."""

_DECORATOR = "natural_function"
_LEFT_OUT = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"})
_NOQA = re.compile(r"#\s*noqa(?:\s*:(?P<codes>[\sA-Z0-9,]+))?", re.IGNORECASE)
_MODULE_NAMES = frozenset({"__name__", "__file__", "__doc__", "__package__", "__spec__", "__builtins__"})
_WORD = SENTINEL.strip()
_NO_VALUES = ("None", "unset", "nh.unset", "nighthawk_async.unset")
_CLASS_NAME = re.compile(r"[A-Z]\w*[a-z]\w*")
_WORDS = re.compile(r"[^\W\d]\w*")
_LIBRARY = "nighthawk_async"
_HANDLED_WIDELY = frozenset(
    {"BaseException", "Exception", "KeyboardInterrupt", "SystemExit", "GeneratorExit"}
)
"""Types of clauses that are no special case of a block."""


class Finding(Struct, frozen=True, kw_only=True):
    """One finding.

    Args:
        code: Its code.
        message: What is wrong, and what to do.
        filename: The file.
        line: The line, counted from 1.
        column: The column, counted from 1.
        last_line: The last line of the block or statement that it is about.
    """

    code: Code
    message: str
    filename: str
    line: int
    column: int
    last_line: int

    @property
    def severity(self) -> Severity:
        """The severity; a note is no mistake."""
        return SEVERITIES[self.code]

    def __str__(self) -> str:
        return f"{self.filename}:{self.line}:{self.column}: {self.code} {self.message}"


def check_paths(paths: Iterable[Path]) -> list[Finding]:
    """Check files, and the Python files below folders.

    Folders of tools are left out: those whose names begin with a dot, and `build`, `dist`, `node_modules`,
    `site-packages`, `venv` and `__pycache__`.

    Args:
        paths: The files and folders.

    Returns:
        The findings by file, in the order of their lines.

    Raises:
        OSError: A file or folder does not exist, or cannot be read.
    """
    return [finding for path in paths for file in _python_files(path) for finding in _check_file(file)]


def _python_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*.py") if not _is_left_out(file.relative_to(path)))


def _is_left_out(path: Path) -> bool:
    return any(part.startswith(".") or part in _LEFT_OUT for part in path.parts[:-1])


def _check_file(path: Path) -> list[Finding]:
    try:
        with tokenize.open(path) as file:
            source = file.read()
    except (SyntaxError, UnicodeDecodeError) as error:  # its encoding is unknown, or another one
        return [_no_python(error, str(path))]
    return check_source(source, str(path))


def check_source(source: str, filename: str) -> list[Finding]:
    """Check the natural functions of a module. Nothing of the module runs.

    Args:
        source: The text of the module.
        filename: Its name, for findings.

    Returns:
        The findings, in the order of their lines.
    """
    try:
        tree = ast.parse(source, filename)
    except (SyntaxError, ValueError) as error:
        return [_no_python(error, filename)]
    checker = _ModuleChecker(tree, filename)
    lines = source.splitlines()
    findings = [each for each in checker.findings() if not _is_hidden(each, lines)]
    return sorted(findings, key=lambda each: (each.line, each.column, each.code))


def _no_python(error: SyntaxError | ValueError, filename: str) -> Finding:
    line = getattr(error, "lineno", None) or 1
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return Finding(
        code="NH000",
        message=message,
        filename=filename,
        line=line,
        column=getattr(error, "offset", None) or 1,
        last_line=line,
    )


def _is_hidden(finding: Finding, lines: list[str]) -> bool:
    for number in {finding.line, finding.last_line}:
        match = _NOQA.search(lines[number - 1]) if number <= len(lines) else None
        if match is None:
            continue
        codes = re.findall(r"[A-Z]+[0-9]+", (match["codes"] or "").upper())
        # Another linter's codes say nothing about a block; those of an import hide the note about it.
        if not codes or finding.code in codes or (finding.code == "NH003" and "F401" in codes):
            return True
    return False


class _ModuleChecker:
    """Collects the findings of one module."""

    def __init__(self, tree: ast.Module, filename: str) -> None:
        self._tree = tree
        self._filename = filename
        self._findings: list[Finding] = []
        scope = function_scope(_as_function(tree))
        self._module_names = scope.bound_names | scope.global_names | _MODULE_NAMES | set(dir(builtins))
        self._has_star_import = any(
            alias.name == "*"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        )
        for node in ast.walk(tree):
            if isinstance(node, ast.Global):
                self._module_names.update(node.names)
        self._typing_only = _typing_only_names(tree)
        self._classes = _class_names(tree)
        self._bases = _bases_of_classes(tree)
        self._own_names = _names_of_library(tree)
        self._mentioned: set[str] = set()

    def findings(self) -> list[Finding]:
        """Return the findings of the module."""
        self._check_body(self._tree.body, frozenset())
        self._check_imports()
        for code, node, message in find_order_risks(self._tree):
            self._find(code, node, message)
        return self._findings

    def _check_body(self, body: list[ast.stmt], enclosing: frozenset[str]) -> None:
        """Check the functions of a body. `enclosing` holds the variables of the functions around it."""
        for statement in own_statements(body):
            if isinstance(statement, ast.ClassDef):
                self._check_body(statement.body, enclosing)
            elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self._check_function(statement, enclosing)

    def _check_function(self, node: FunctionNode, enclosing: frozenset[str]) -> None:
        is_natural = any(_is_natural(decorator) for decorator in node.decorator_list)
        blocks = [literal for each in own_statements(node.body) if (literal := natural_literal(each))]
        self._check_sentinels(node, is_natural=is_natural)
        scope = function_scope(node)
        names = scope.bound_names | _type_parameters(node)
        if is_natural and blocks:
            names |= self._check_blocks(node, scope, enclosing)
        elif blocks and not node.decorator_list:
            self._find("NH007", blocks[0], f"{node.name}() has a block; decorate it with @natural_function")
        self._check_body(node.body, enclosing | names)

    def _check_sentinels(self, node: FunctionNode, *, is_natural: bool) -> None:
        for statement in own_statements(node.body):
            if not isinstance(statement, ast.Expr) or natural_literal(statement) is not None:
                continue
            text = text_of(statement.value)
            if text is not None and (problem := sentinel_problem(text, is_natural=is_natural)):
                self._find(
                    "NH004", statement.value, f"{problem}, so this is no block: begin it with {SENTINEL!r}"
                )

    def _check_blocks(self, node: FunctionNode, scope: FunctionScope, enclosing: frozenset[str]) -> set[str]:
        """Check the blocks of a natural function; returns the variables that they set."""
        try:
            rewritten = rewrite_function(
                node,
                filename=self._filename,
                is_generator=_is_generator(node),
                closure_names=frozenset(),
                hidden_names=frozenset(),
            )
        except NaturalParseError as error:
            place = ast.Constant("", lineno=error.line or node.lineno, col_offset=node.col_offset)
            self._find("NH001", place, error.message)
            return set()
        literals = rewritten.literals
        written = {name for each in literals for name in each.bindings.write_names}
        local = scope.bound_names | written | _type_parameters(node)
        known = local | enclosing | self._module_names
        for parsed in literals:
            self._check_references(parsed, local, known)
        self._check_written(node, scope, literals)
        self._check_annotations(scope, written, known)
        self._check_types(node, scope, literals)
        self._check_returned(node, scope, written)
        for parsed in literals:
            self._check_clauses(parsed)
            self._check_read_and_set(parsed)
        return written

    def _check_references(self, parsed: ParsedLiteral, local: set[str], known: set[str]) -> None:
        names = dict.fromkeys(map(root_name, parsed.bindings.references))
        for name in names:
            if name not in local:
                self._mentioned.add(name)
            if name in self._typing_only and name not in local:
                problem = "is imported for type checkers alone; import it at run time"
            elif name not in known and not self._has_star_import:
                problem = f"nothing defines; define it, or escape it as \\<{name}>"
            else:
                continue
            self._find("NH002", parsed.literal, f"the block uses <{name}>, which {problem}")

    def _check_written(
        self, node: FunctionNode, scope: FunctionScope, literals: tuple[ParsedLiteral, ...]
    ) -> None:
        elsewhere = scope.global_names | scope.nonlocal_names
        names = (each for each in ast.walk(node) if isinstance(each, ast.Name))
        read = {each.id for each in names if isinstance(each.ctx, ast.Load)}
        if "locals" in read:
            return
        read |= _mentioned_in_blocks(node)
        for parsed in literals:
            for name in parsed.bindings.write_names:
                if name not in read and name not in elsewhere:
                    self._find("NH005", parsed.literal, f"the block sets <:{name}>, which nothing reads")
                    read.add(name)

    def _check_annotations(self, scope: FunctionScope, written: set[str], known: set[str]) -> None:
        for name in sorted(written & scope.annotations.keys()):
            annotation = scope.annotations[name]
            for used in sorted(annotation_names(annotation)):
                if used in self._typing_only:
                    problem = "is imported for type checkers alone; import it at run time"
                elif used not in known and not self._has_star_import:
                    problem = "is not defined"
                else:
                    self._mentioned.update(() if used in scope.bound_names else (used,))
                    continue
                self._find("NH006", annotation, f"the type {used} of <:{name}> {problem}")

    def _check_types(
        self, node: FunctionNode, scope: FunctionScope, literals: tuple[ParsedLiteral, ...]
    ) -> None:
        """Note the variables without a type, and without a value that has one, beside a class in a block."""
        typed = {*scope.annotations, *scope.global_names, *scope.nonlocal_names}
        typed |= {*parameter_names(node.args), *_names_with_values(node)}
        for parsed in literals:
            texts = literal_parts(parsed.literal)
            for name, kind in (*names_beside(texts), *words_beside(texts, self._classes)):
                if name not in typed and kind in self._classes:
                    problem = f"has no type beside <{kind}>, so it may keep JSON; annotate it: {name}: {kind}"
                    self._find("NH008", parsed.literal, f"<:{name}> {problem}")
                    typed.add(name)

    def _check_returned(self, node: FunctionNode, scope: FunctionScope, written: set[str]) -> None:
        """Note the variables without a type that are returned as they stand."""
        untyped = written - scope.annotations.keys() - scope.global_names - scope.nonlocal_names
        untyped -= {*parameter_names(node.args), *_names_with_values(node)}
        returned = "" if node.returns is None else ast.unparse(node.returns).strip("'\"")
        for statement in own_statements(node.body):
            match statement:
                case ast.Return(value=ast.Name(id=name)) if name in untyped and returned != "None":
                    kind = returned or "the type that it has"
                    problem = f"the variable {name} of a block is returned and has no type; annotate it"
                    self._find("NH015", statement, f"{problem}: {name}: {kind}")
                case _:
                    continue

    def _check_clauses(self, parsed: ParsedLiteral) -> None:
        """Note the exception types of `except` clauses around a block that its text does not name."""
        words = {word for text in literal_parts(parsed.literal) for word in _WORDS.findall(text)}
        for path in parsed.handled_errors:
            name = path.rpartition(".")[2]
            if name in _HANDLED_WIDELY or root_name(path) in self._own_names or self._is_named(name, words):
                continue
            problem = f"the clause around the block handles {path}, which its text does not name"
            self._find("NH014", parsed.literal, f"{problem}; say when it is raised")

    def _is_named(self, name: str, words: set[str]) -> bool:
        """Whether a text names an exception type, or one that derives from it as far as the module shows."""
        return any(name == word or name in _ancestors(word, self._bases) for word in words)

    def _check_read_and_set(self, parsed: ParsedLiteral) -> None:
        for name in parsed.bindings.write_names:
            if name in parsed.bindings.read_names:
                problem = f"the block reads <{name}> and sets <:{name}>"
                self._find(
                    "NH016",
                    parsed.literal,
                    f"{problem}; write <:{name}> alone, which has its value too, or set another name",
                )

    def _check_imports(self) -> None:
        """Note the imports that Python code does not use, and a block does."""
        used = {each.id for each in ast.walk(self._tree) if isinstance(each, ast.Name)}
        used |= _exported(self._tree)
        for statement in self._tree.body:
            if not isinstance(statement, ast.Import | ast.ImportFrom):
                continue
            for alias in statement.names:
                name = alias.asname or root_name(alias.name)
                if name in self._mentioned and name not in used:
                    message = (
                        f"only blocks use the import {name}; keep linters from removing it: # noqa: F401"
                    )
                    self._find("NH003", alias, message)

    def _find(self, code: Code, node: ast.expr | ast.stmt | ast.alias, message: str) -> None:
        self._findings.append(
            Finding(
                code=code,
                message=message,
                filename=self._filename,
                line=node.lineno,
                column=node.col_offset + 1,
                last_line=getattr(node, "end_lineno", None) or node.lineno,
            )
        )


def _as_function(tree: ast.Module) -> FunctionNode:
    """A function with the body of a module, whose variables are those of the module."""
    arguments = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.FunctionDef(
        name="module", args=arguments, body=tree.body, decorator_list=[], lineno=1, col_offset=0
    )


def _is_natural(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", None)
    return name == _DECORATOR


def _is_generator(node: FunctionNode) -> bool:
    pending: list[ast.AST] = list(node.body)
    while pending:
        each = pending.pop()
        if isinstance(each, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending += ast.iter_child_nodes(each)
    return False


def _type_parameters(node: FunctionNode) -> set[str]:
    return {str(each.name) for each in getattr(node, "type_params", ())}


def _mentioned_in_blocks(node: FunctionNode) -> set[str]:
    """The variables that the blocks of a function, and of the functions inside it, read."""
    statements = (each for each in ast.walk(node) if isinstance(each, ast.stmt))
    literals = (literal for each in statements if (literal := natural_literal(each)))
    tokens = (token for each in literals for text in literal_parts(each) for token in find_tokens(text))
    return {root_name(token.path) for token in tokens if token.is_reference and not token.is_write}


def _typing_only_names(tree: ast.Module) -> set[str]:
    """The names that a module imports only where TYPE_CHECKING holds."""
    names, others = set[str](), set[str]()
    for statement in own_statements(tree.body):
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            names.update(_imported(statement.body))
            others.update(_imported(statement.orelse))
    return names - others


def _class_names(tree: ast.Module) -> set[str]:
    """The classes that a module defines or, by their names, imports; exceptions left out."""
    names = {each.name for each in ast.walk(tree) if isinstance(each, ast.ClassDef)}
    names |= {name for name in _imported(list(own_statements(tree.body))) if _CLASS_NAME.fullmatch(name)}
    return {name for name in names if not name.endswith(("Error", "Exception"))}


def _bases_of_classes(tree: ast.Module) -> dict[str, list[str]]:
    """The names of the bases of the classes that a module defines."""
    return {
        each.name: [ast.unparse(base).rpartition(".")[2] for base in each.bases]
        for each in ast.walk(tree)
        if isinstance(each, ast.ClassDef)
    }


def _ancestors(name: str, bases: Mapping[str, list[str]]) -> set[str]:
    """The names of the classes from which a class derives, as far as a module and the builtins show."""
    found: set[str] = set()
    pending = [name]
    while pending:
        current = pending.pop()
        builtin: object = getattr(builtins, current, None)
        others = [each.__name__ for each in builtin.__mro__] if isinstance(builtin, type) else []
        new = {*bases.get(current, ()), *others} - found
        found |= new
        pending += new
    return found


def _names_of_library(tree: ast.Module) -> set[str]:
    """The names under which a module has imported this library, or parts of it."""
    names: set[str] = set()
    for statement in own_statements(tree.body):
        modules = [statement.module or ""] if isinstance(statement, ast.ImportFrom) else []
        for alias in statement.names if isinstance(statement, ast.Import | ast.ImportFrom) else []:
            if root_name(next(iter(modules), alias.name)) == _LIBRARY:
                names.add(alias.asname or root_name(alias.name))
    return names


def _names_with_values(node: FunctionNode) -> Iterator[str]:
    """The variables to which a function assigns something other than None and `unset`."""
    stored = {id(each): each.id for each in ast.walk(node) if isinstance(each, ast.Name) and _is_stored(each)}
    for each in ast.walk(node):
        if isinstance(each, ast.Assign) and ast.unparse(each.value) in _NO_VALUES:
            for target in each.targets:
                stored.pop(id(target), None)
    yield from stored.values()


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _imported(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield from (alias.asname or root_name(alias.name) for alias in statement.names)


def _exported(tree: ast.Module) -> set[str]:
    """The names in `__all__`."""
    return {
        constant.value
        for statement in tree.body
        if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)
        and "__all__" in ast.unparse(statement)
        for constant in ast.walk(statement)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    }
