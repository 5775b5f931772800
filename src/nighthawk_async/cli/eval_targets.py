"""The evaluations that a command line names."""

import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, cast

from ..errors import ConfigurationError, NighthawkError
from ..evals.declarations import Evaluation, declared_evaluation
from ..evals.marks import is_evaluation
from ..types.json import is_list_or_tuple
from .run_script import load_module

_DEFAULT = "evaluation"


def load_evaluations(target: str) -> list[Evaluation]:
    """Import the evaluations of a target.

    `module:name` is an `Evaluation`, a list of them, a test function with `@Evaluation.test`, or a function,
    which is evaluated on the `cases` of its module with its `scorers`. `module` alone is its `evaluation`;
    without one, all its evaluations; without any, its function `subject`. `file.py` may stand for `module`.

    Args:
        target: The target.

    Raises:
        ConfigurationError: There is no such module, it raises, or it has no evaluation of that name.
        EvaluationError: An evaluation cannot be used.
    """
    place, colon, name = target.rpartition(":")
    if not colon:
        place, name = target, ""
    if not place or (colon and not name.isidentifier()):
        raise ConfigurationError(f"{target!r} is no evaluation; write module:name, file.py:name, or module")
    try:
        return _load(target, place, name)
    except NighthawkError:
        raise
    except (Exception, SystemExit) as error:  # of code of the module: status 1 would be that of a gate
        traceback.print_exception(error)
        raise ConfigurationError(f"{target} cannot be loaded: {type(error).__name__}: {error}") from error


def _load(target: str, place: str, name: str) -> list[Evaluation]:
    module = load_module(place)
    if not name:
        return _evaluations_of(module, target)
    if not hasattr(module, name):
        known = sorted(_names_of(module))
        hint = f"; it has {', '.join(known)}" if known else ""
        raise ConfigurationError(f"{target}: the module has no {name!r}{hint}")
    return _as_evaluations(getattr(module, name), module, target)


def selected_cases(evaluations: Sequence[Evaluation], texts: Sequence[str]) -> list[Evaluation]:
    """Return evaluations with the cases whose name has one of the texts, without those that have none.

    Args:
        evaluations: The evaluations.
        texts: The texts.

    Raises:
        ConfigurationError: There is no such case.
    """
    chosen = [
        replace(each, cases=[case for case in each.cases if any(text in case.name for text in texts)])
        for each in evaluations
    ]
    found = [each for each in chosen if each.cases]
    if not found:
        raise ConfigurationError(f"no case has {' or '.join(map(repr, texts))} in its name")
    return found


def _evaluations_of(module: ModuleType, target: str) -> list[Evaluation]:
    names = [_DEFAULT] if _is_one(getattr(module, _DEFAULT, None)) else sorted(_names_of(module))
    if not names and callable(getattr(module, "subject", None)) and hasattr(module, "cases"):
        names = ["subject"]
    if not names:
        raise ConfigurationError(
            f"{target}: the module has no evaluation; give it one, evaluation = Evaluation(function, cases), "
            "or name a function of a module with cases: module:function"
        )
    return [
        each for name in names for each in _as_evaluations(getattr(module, name), module, f"{target}:{name}")
    ]


def _names_of(module: ModuleType) -> Iterable[str]:
    """Yield the names of the module's own evaluations."""
    for name, value in vars(module).items():
        is_own = getattr(value, "__module__", module.__name__) == module.__name__
        if isinstance(value, Evaluation) or (is_evaluation(value) and is_own):
            yield name


def _is_one(value: object) -> bool:
    if is_list_or_tuple(value):
        return bool(value) and all(isinstance(each, Evaluation) for each in value)
    return isinstance(value, Evaluation) or is_evaluation(value)


def _as_evaluations(value: object, module: ModuleType, target: str) -> list[Evaluation]:
    if isinstance(value, Evaluation):
        return [value]
    if is_evaluation(value):
        return [declared_evaluation(cast("Callable[..., Any]", value))]
    if _is_one(value):
        return list(cast("list[Evaluation]", value))
    if not callable(value) or isinstance(value, type):
        raise ConfigurationError(f"{target} is no evaluation and no function, but {value!r}")
    cases = getattr(module, "cases", None)
    if cases is None:
        raise ConfigurationError(
            f"{target} is a function, and its module has no cases: give it cases = [Case(…), …], or an "
            "Evaluation(function, cases)"
        )
    return [Evaluation(value, cases, scorers=getattr(module, "scorers", None))]
