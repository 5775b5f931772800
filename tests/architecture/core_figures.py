"""Figures of the core, counted in its source; run as a program, it prints them.

What must not grow is in `BOUNDS`. Whoever lowers a figure lowers its bound.
"""

import ast
from collections import deque
from collections.abc import Iterable, Mapping
from functools import cache

from .source_tree import PACKAGE, SOURCE, Import, Module, code_length, house_imports, parse_package

CORE = ("kernel", "agent", "executors")
"""The rooms of the way of a step, of the model loop, and of what joins it to features."""

FEATURES = (
    *("policies", "observe", "recording", "journal", "skills", "coding_agents", "compaction", "transcripts"),
    "executors.managed_agent",
)
"""Rooms and modules of features: the core does without their names."""

FEATURES_IN_THE_CORE: frozenset[tuple[str, str]] = frozenset(
    {
        ("executors", "coding_agents.errors"),  # public names: `nighthawk_async.executors.CodingAgentError`
        ("executors", "coding_agents.settings"),  # public names: `nighthawk_async.executors.CodexSettings`
        ("executors.agent", "executors.managed_agent"),  # a configuration's model id may name a coding agent
    }
)
"""The imports of features by the core, lazy and type-only ones too; the list only shrinks.

The kernel and the agent have none. `executors` is where a model id becomes an agent, so one of its modules
names those that there are.
"""

NO_POLICIES: Mapping[str, str] = {
    "journal_ports": (
        "the journal. It takes places in the order in which the program gets there, before a policy waits. "
        "It records the answer of an executor before that is concluded, in the middle of what `around_step` "
        "is around. A policy would need a ninth method for it."
    ),
    "observation": (
        "the live tree. It is attached to a program, not to a run: there are nodes outside of runs, of tasks "
        "and combinators, and of steps that could not be prepared, which no policy has seen."
    ),
    "tracing": (
        "traces. They are configured for a program as well. Spans are the parents of all that happens in "
        "them, so they begin before policies do, and end after them."
    ),
}
"""Ports of the core by which features take part that are no policies, with the reasons."""

ROOTS = ("functions", "runs", "executors.agent", "models.http_model")
"""Modules that a program needs which runs natural functions with a model behind HTTP."""

BOUNDS: Mapping[str, int] = {
    "methods of a policy": 8,
    "context variables": 10,  # each with its reason beside it
    "features": 19,  # values that the kernel carries in one of these variables, such as the running cell
    "imports inside functions": 108,
    "partial(": 77,  # what is called again with more arguments, functions of users, what is pickled
    "cast(": 546,
    "partials of methods of policies": 0,
    # Wanted: 110 and 19,000. True: 145 and 28,000. Kernel, prompts, agent, models and values alone are 20,000
    # lines. The syntax of blocks, tasks, mailboxes, protocols and the tables of models are 4,900 more. Most
    # steps need most of it. Lenient readings, signing and the queue of admission load where they are used.
    # The rules of endpoints (`catalog.endpoint_rules`), what bounds calls of a model's code
    # (`kernel.code_calls`) and the output of its cells came late; runs of a process that was forked, what
    # `settle` keeps at its deadline, the names that others give providers, and what answers hold beside text
    # (media, citations, refusals) came last. Editors read 290 lines in packages that stood in files beside.
    "modules in eager reach": 153,
    "lines of code in eager reach": 29_700,  # steering, values that are too large, kinds of errors, prices
    # Wanted: 140 and 22,000. True: 334 and 58,300. Lazy imports and names in annotations count here: 55
    # modules of policies and 13 of coding agents are reached in no other way, nor are WebSockets. Each module
    # that became lazy takes four more lines where it is named. Three modules and 490 lines of budgets that
    # processes share load with the first budget; the store's part of them loads with the first shared one.
    # What makes classes or evaluates texts, at `shown` and under permissions, takes four; commands that other
    # programs run one; the kinds of errors, shorter transcripts, the names of encodings, the tasks of
    # combinators, the collector of a run of many steps and tools with `*args` one each; calls as text take
    # four, and 490 lines. Fewer instructions of a step with a journal took 16 lines, of cells with loops 10;
    # showing large values with fewer calls took 120: rows and lists in one go, whole and cut apart; names
    # that moved 17.
    "modules in reach": 344,
    "lines of code in reach": 60_100,
    # Wanted: 38 and 170. True: 59 and 281. The files have 14,500 lines of code: 38 files would have 380 on
    # average, whatever room they are of, and most pairs that call each other are longer than 450 together.
    # Some 40 changes were added by what made requests half as long: which tools a block needs, what a schema
    # says already, which objects are shown already. Six files and 19 changes are what the expression of this
    # step costs at the level "shown": what code may do, and what bounds its calls. Three files more
    # are calls that make classes, and previews in three files: the walk, and the bound by which large values
    # are given up.
    "files of a scripted step": 62,
    "changes of file of a scripted step": 298,  # they vary by a few
    # Wanted: 56 and 330. True: 86 and about 480. The 27 files beside those of a scripted step have 4,300
    # lines; two of them are the connection and its plain HTTP, in place of h11. 34 changes are between the
    # decoder and the scanner of JSON, 19 between the response and the model
    # loop: one event at a time.
    "files of a step over HTTP": 89,
    "changes of file of a step over HTTP": 580,  # they vary by 100: how a stream arrives is luck
}
"""The highest figures allowed."""

MODULES = parse_package(SOURCE, PACKAGE)


def figures() -> dict[str, int]:
    """The figures of the source as it is; those of the way of a step are counted by `step_way`."""
    eager, all_ = reach(eager_only=True), reach(eager_only=False)
    methods = policy_methods()
    return {
        "methods of a policy": len(methods),
        "context variables": len(calls_of("ContextVar")),
        "features": len(calls_of("Feature")),
        "imports inside functions": inner_imports(),
        "partial(": len(calls_of("partial")),
        "cast(": len(calls_of("cast")),
        "partials of methods of policies": len(partials_of(methods)),
        "modules in eager reach": len(eager),
        "lines of code in eager reach": sum(map(code_length, eager)),
        "modules in reach": len(all_),
        "lines of code in reach": sum(map(code_length, all_)),
    }


def feature_imports() -> set[tuple[str, str]]:
    """The imports of features by modules of the core that belong to none, without the package's name."""
    found: set[tuple[str, str]] = set()
    for module in MODULES.values():
        name = short(module.name)
        is_core = name.partition(".")[0] in CORE
        if is_core and not is_feature(name):
            targets = {short(item.target) for item in imports_of(module.name)}
            found |= {(name, target) for target in targets if is_feature(target)}
    return found


@cache
def imports_of(name: str) -> list[Import]:
    """The imports of a module that name modules of the library."""
    return house_imports(MODULES[name], MODULES)


def is_feature(name: str) -> bool:
    """Whether a module belongs to a feature."""
    return name.startswith(tuple(f"{each}." for each in FEATURES)) or name.startswith(
        tuple(each for each in FEATURES if "." in each)
    )


def short(name: str) -> str:
    """The name of a module without the package's."""
    return name.removeprefix(f"{PACKAGE}.")


def policy_methods() -> set[str]:
    """The methods of `Policy` that a policy may override."""
    classes = (
        node
        for module in MODULES.values()
        if module.name.startswith(f"{PACKAGE}.{CORE[0]}.")
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and node.name == "Policy"
    )
    body = next(classes).body
    names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return {name for name in names if not name.startswith("_")}


@cache
def calls() -> list[ast.Call]:
    """All calls in the source."""
    nodes = (node for module in MODULES.values() for node in ast.walk(module.tree))
    return [node for node in nodes if isinstance(node, ast.Call)]


def calls_of(function: str) -> list[ast.Call]:
    """The calls of a function by its name, with type arguments or without, of its module or alone."""
    return [call for call in calls() if _name_of(call.func) == function]


def calls_in(module: Module, function: str) -> list[ast.Call]:
    """The calls of a function in one module."""
    nodes = (node for node in ast.walk(module.tree) if isinstance(node, ast.Call))
    return [node for node in nodes if _name_of(node.func) == function]


def _name_of(called: ast.expr) -> str:
    if isinstance(called, ast.Subscript):
        called = called.value
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def partials_of(methods: Iterable[str]) -> list[ast.Call]:
    """The calls of `partial` with a method of a policy."""
    firsts = ((call, call.args[0]) for call in calls_of("partial") if call.args)
    return [call for call, first in firsts if isinstance(first, ast.Attribute) and first.attr in methods]


def inner_imports() -> int:
    """The number of import statements inside functions; those in methods of local classes count, too."""
    found: set[int] = set()
    for module in MODULES.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found |= {
                    id(each) for each in ast.walk(node) if isinstance(each, ast.Import | ast.ImportFrom)
                }
    return len(found)


def reach(*, eager_only: bool) -> list[Module]:
    """The modules that `ROOTS` import, and those import; packages only join what they export."""
    found: dict[str, Module] = {}
    waiting = deque(f"{PACKAGE}.{root}" for root in ROOTS if f"{PACKAGE}.{root}" in MODULES)
    while waiting:
        name = waiting.popleft()
        if name not in found:
            module = found[name] = MODULES[name]
            if module.deferred is None:
                items = imports_of(name)
                waiting.extend(item.target for item in items if item.is_top_level or not eager_only)
    return list(found.values())


if __name__ == "__main__":
    for figure, value in figures().items():
        print(f"{value:7} {figure}")
    for pair in sorted(feature_imports()):
        print(pair)
