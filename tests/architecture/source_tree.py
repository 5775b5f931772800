"""The modules of a package as parsed source: which module imports which, and what each defines.

Reads source only; nothing is imported, so a lazy import and a type-only import count like any other.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

__all__ = [
    "PACKAGE",
    "SOURCE",
    "Import",
    "Module",
    "code_length",
    "find_cycle",
    "house_imports",
    "parse_package",
]

PACKAGE = "nighthawk_async"
SOURCE = Path(__file__).parents[2] / "src" / PACKAGE
_IMPORT_CALLS = ("importlib.import_module", "import_module", "__import__")
_Importing = ast.Import | ast.ImportFrom | ast.Call


@dataclass(frozen=True, kw_only=True)
class Module:
    """One module.

    Args:
        name: Its dotted name, the package's included.
        path: Its file.
        is_package: Whether it is an `__init__`.
    """

    name: str
    path: Path
    is_package: bool

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return _parse(self.path)

    @cached_property
    def deferred(self) -> ast.Module | None:
        """The imports that a package leaves to the first use of each name, and its `__all__`."""
        if "attach_exports(" not in self.path.read_text(encoding="utf-8"):
            return None  # most modules; nothing is made of their trees
        if not any("attach_exports(__name__" in ast.unparse(node) for node in self.tree.body):
            return None
        body: list[ast.stmt] = []
        for node in self.tree.body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                body += node.body
            elif ast.unparse(node).startswith("__all__ = "):
                body.append(node)
        return ast.Module(body=body, type_ignores=[])

    @cached_property
    def imports(self) -> "tuple[Import, ...]":
        """Every import in it, wherever it stands, relative ones resolved.

        `importlib.import_module` and `__import__` with a literal name count too.
        """
        return tuple(
            Import(target=target, line=node.lineno, is_top_level=is_top_level)
            for node, is_top_level in _imports_in(self.tree, is_top_level=True)
            for target in _targets(self, node)
        )

    @property
    def lines(self) -> list[str]:
        """The lines of its source."""
        return self.path.read_text(encoding="utf-8").splitlines()


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One import statement's target.

    Args:
        target: The dotted name that is imported: a module, or a name in one.
        line: The line of the statement.
        is_top_level: Whether it runs when the module is imported.
    """

    target: str
    line: int
    is_top_level: bool


@cache
def parse_package(root: Path, package: str) -> Mapping[str, Module]:
    """Find every module below a package's folder; each is parsed when it is first looked at.

    Args:
        root: The folder.
        package: The package's name.
    """
    modules: dict[str, Module] = {}
    for path in sorted(root.rglob("*.py")):
        parts = [package, *path.relative_to(root).with_suffix("").parts]
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules[name] = Module(name=name, path=path, is_package=is_package)
    return modules


def house_imports(module: Module, modules: Mapping[str, Module]) -> list[Import]:
    """The imports of a module that name modules of the same tree, each reduced to the module it names."""
    found: list[Import] = []
    for item in module.imports:
        target = item.target
        while target and target not in modules:
            target = target.rpartition(".")[0]
        if target and target != module.name:
            found.append(Import(target=target, line=item.line, is_top_level=item.is_top_level))
    return found


def code_length(module: Module) -> int:
    """The number of lines of a module that are neither blank, nor comments, nor documentation."""
    lines = {
        number for number, line in enumerate(module.lines, 1) if line.strip() and line.lstrip()[0] != "#"
    }
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for each in node.body:
                if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                    lines.difference_update(range(each.lineno, (each.end_lineno or each.lineno) + 1))
    return len(lines)


def find_cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """A cycle of a directed graph: the nodes along it, the first repeated at the end; empty without one."""
    finished: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in finished:
            return []
        for successor in sorted(graph.get(node, ())):
            if cycle := visit(successor, [*path, node]):
                return cycle
        finished.add(node)
        return []

    for start in sorted(graph):
        if cycle := visit(start, []):
            return cycle
    return []


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _imports_in(tree: ast.Module, *, is_top_level: bool) -> list[tuple[_Importing, bool]]:
    """What may import in a tree, in its order, and whether it runs when the module is imported."""
    found: list[tuple[_Importing, bool]] = []
    rest: list[tuple[ast.AST, bool]] = [(tree, is_top_level)]
    while rest:
        node, is_top_level = rest.pop()
        if isinstance(node, _Importing):
            found.append((node, is_top_level))
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        inside = is_top_level and not (is_function or _is_type_only(node))
        rest += [(child, inside) for child in reversed(list(ast.iter_child_nodes(node)))]
    return found


def _is_type_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _targets(module: Module, node: _Importing) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = _resolve(module, level=node.level, name=node.module or "")
        return [f"{base}.{alias.name}" for alias in node.names]
    if (
        node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.func, ast.Name | ast.Attribute)
    ):
        called = ast.unparse(node.func)
        name = node.args[0].value
        if called in ("importlib.import_module", "import_module", "__import__") and isinstance(name, str):
            level = len(name) - len(name.lstrip("."))
            return [_resolve(module, level=level, name=name.lstrip("."))]
    return []


def _resolve(module: Module, *, level: int, name: str) -> str:
    if level == 0:
        return name
    parts = module.name.split(".")
    parts = parts[: len(parts) - level + (1 if module.is_package else 0)]
    return ".".join([*parts, name] if name else parts)
