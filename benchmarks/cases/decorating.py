"""What decorating a natural function costs, reading and compiling its file included."""

import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from types import FunctionType

import nighthawk_async as nh

from ..measure import Benchmark
from ..stopwatch import Stopwatch

__all__ = ["BENCHMARKS"]

FUNCTIONS_IN_A_FILE = 20
BLOCKS = 30
"""Blocks of a large function."""

SMALL = '''
async def small_{number}(numbers: list[object]) -> float:
    """natural
    Map each element of <numbers> to the number it represents,
    then compute <:result> by calling <python_average> with the mapped list.
    """
    return result
'''

LARGE_HEAD = '''
async def large_{number}(texts: list[str], limit: int = 10, *, verbose: bool = False) -> dict[str, int]:
    """Sort texts in many steps."""
    counts: dict[str, int] = {{}}
'''

LARGE_PART = '''
    label_{part}: str = ""
    for index, text in enumerate(texts[:limit]):
        if verbose and text:
            print(index, len(text), sep=": ")
        try:
            """natural
            Read <text>, compare it with <counts> and set <:label_{part}> to the kind of text that it is.
            Continue when it is empty, and break as soon as <limit> of them are of one kind.
            """
        except ValueError as error:
            counts["errors"] = counts.get("errors", 0) + len(str(error))
        counts[label_{part}] = counts.get(label_{part}, 0) + 1
'''

ORDINARY = '''
def ordinary_{number}(first: int, second: int) -> int:
    """Nothing natural."""
    total = 0
    for each in range(first, second):
        if each % 2:
            total += each * first
    return total
'''

_numbers = count()


def small_functions(functions: int) -> str:
    """A file of functions with one block."""
    return "".join(SMALL.format(number=number) for number in range(functions))


def large_functions(functions: int) -> str:
    """A file of functions with many blocks."""
    parts = "".join(LARGE_PART.format(part=part) for part in range(BLOCKS))
    return "".join(
        LARGE_HEAD.format(number=number) + parts + "    return counts\n" for number in range(functions)
    )


def one_among_many(functions: int) -> str:
    """A file of about two thousand lines with ordinary functions and a few natural ones."""
    return "".join(ORDINARY.format(number=number) for number in range(220)) + small_functions(functions)


def decorate(make_source: Callable[[int], str], per_file: int, functions: int) -> Mapping[str, float]:
    """Decorate the functions of new files."""
    with tempfile.TemporaryDirectory() as folder:
        files = [
            load_functions(Path(folder), make_source(min(per_file, functions - first)))
            for first in range(0, functions, per_file)
        ]
        stopwatch = Stopwatch()
        decorated = [nh.natural_function(function) for functions in files for function in functions]
        figures = stopwatch.figures(functions)
    assert len(decorated) == functions
    return figures


def load_functions(folder: Path, source: str) -> list[FunctionType]:
    """Write a file, import it, and give those of its functions that have natural blocks."""
    name = f"generated_{next(_numbers)}"
    file = folder / f"{name}.py"
    file.write_text(source)
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return [
        value
        for value in vars(module).values()
        if isinstance(value, FunctionType) and not value.__name__.startswith("ordinary")
    ]


def decorate_again(functions: int) -> Mapping[str, float]:
    """Decorate a nested function at each call of the function around it; its source is known already."""

    def outer(number: int) -> Callable[[], int]:
        @nh.natural_function
        def inner() -> int:
            """Square the number of the function around it."""
            result: int = 0
            """natural
            Set <:result> to the square of <number>.
            """
            return result

        return inner

    outer(0)
    stopwatch = Stopwatch()
    for number in range(functions):
        outer(number)
    return stopwatch.figures(functions)


BENCHMARKS = (
    Benchmark(
        name="decorate-small",
        what=f"decorating a function with one block, {FUNCTIONS_IN_A_FILE} in a file",
        run=lambda functions: decorate(small_functions, FUNCTIONS_IN_A_FILE, functions),
        operations=200,
        quick_operations=20,
    ),
    Benchmark(
        name="decorate-large",
        what=f"decorating a function with {BLOCKS} blocks, alone in its file",
        run=lambda functions: decorate(large_functions, 1, functions),
        operations=10,
        quick_operations=1,
    ),
    Benchmark(
        name="decorate-in-large-file",
        what="decorating the one natural function of a file of 2,000 lines",
        run=lambda functions: decorate(one_among_many, 1, functions),
        operations=10,
        quick_operations=1,
    ),
    Benchmark(
        name="decorate-again",
        what="decorating a nested function again, with another closure",
        run=decorate_again,
        operations=2_000,
        quick_operations=100,
    ),
)
