"""The transform against Python's own compiler, over functions that were not written for it."""

import argparse
import ast
import asyncio.tasks
import contextlib
import dataclasses
import enum
import inspect
import sys
import traceback
import typing
import warnings
from types import CodeType

import pytest

from nighthawk_async.natural.rewrite import rewrite_function
from nighthawk_async.natural.scope import function_scope, mangle
from nighthawk_async.natural.source import FunctionSource, _index, compile_function, skeleton_scopes
from nighthawk_async.natural.tree import CLOSURE_NAMES

MODULES = [argparse, ast, asyncio.tasks, contextlib, dataclasses, enum, inspect, traceback, typing]
NESTED = 0x10  # set for every function inside another, so for every function inside a skeleton


def functions(module):
    """Yield every function of a module's source: its code as Python compiled it, and its definition."""
    text = inspect.getsource(module)
    filename = inspect.getsourcefile(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        definitions = _index(ast.parse(text))
        pending = [compile(text, filename, "exec", dont_inherit=True)]
    while pending:
        code = pending.pop()
        pending.extend(constant for constant in code.co_consts if isinstance(constant, CodeType))
        if (code.co_name, code.co_firstlineno) in definitions:
            yield code, definitions[code.co_name, code.co_firstlineno]


def shape(code):
    """Describe a code object, and those inside it, as far as a caller or a closure of the user's can tell."""
    inner = sorted((shape(item) for item in code.co_consts if isinstance(item, CodeType)), key=repr)
    return (
        code.co_qualname,
        code.co_firstlineno,
        code.co_flags & ~NESTED,
        code.co_varnames,
        code.co_cellvars,
        tuple(name for name in code.co_freevars if name not in CLOSURE_NAMES),
        inner,
    )


def recompile(code: CodeType, source: FunctionSource) -> CodeType:
    rewritten = rewrite_function(
        source.node,
        filename=code.co_filename,
        is_generator=bool(code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR)),
        closure_names=frozenset(name for name in code.co_freevars if name.isidentifier()),
        hidden_names=frozenset(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile_function(rewritten.node, scopes=skeleton_scopes(source, code), original=code)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_5_1_function_without_blocks_compiles_to_what_it_was(module):
    count = 0
    for code, source in functions(module):
        assert shape(recompile(code, source)) == shape(code)
        count += 1
    assert count > 10


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_local_names_are_those_that_python_stores_in_fast_variables_and_cells(module):
    for code, source in functions(module):
        names = {mangle(name, source.class_name) for name in function_scope(source.node).local_names}
        stored = {*code.co_varnames, *code.co_cellvars}
        if sys.version_info < (3, 12):
            unused = names - stored  # a variable that is only annotated, or only bound in dead code
        else:
            stored -= comprehension_variables(source.node, source.class_name) - names
            unused = names - stored
        assert stored <= names
        assert unused <= annotated_only(source.node) | dead_names(source.node)


def comprehension_variables(node, class_name):
    targets = [item.target for item in ast.walk(node) if isinstance(item, ast.comprehension)]
    names = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    return {mangle(name, class_name) for name in names}


def annotated_only(node):
    return {item.target.id for item in ast.walk(node) if isinstance(item, ast.AnnAssign) and not item.value}


def dead_names(node):
    dead = [
        item for item in ast.walk(node) if isinstance(item, ast.If) and isinstance(item.test, ast.Constant)
    ]
    return {part.id for item in dead for part in ast.walk(item) if isinstance(part, ast.Name)}
