"""Trials as scorers see them, the scores that they give, and scorers that need no model."""

import difflib
import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from importlib import import_module
from numbers import Real
from typing import Any, TypeAlias, cast

from pydantic import TypeAdapter, ValidationError

from ..errors import ConfigurationError
from ..prompt.plain_text import single_line
from ..signatures import read_signature
from ..types.json import is_json_list, is_json_mapping, is_json_object, is_mapping
from ..types.messages import Citation
from ..types.usage import Usage
from ..values.error_text import callable_name, describe_validation_error
from .cases import Case
from .errors import EvaluationError, ScoreError

DEFAULT_PASS_MARK = 0.5
SHOWN_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one trial by one scorer.

    Args:
        value: A finite number, better the greater it is. Without `passed`, from 0 to 1.
        passed: Whether the trial passes; None for whether the value reaches the evaluation's `pass_mark`.
        reason: The reason, for people.
    """

    value: float
    _: KW_ONLY
    passed: bool | None = None
    reason: str = ""

    def __str__(self) -> str:
        """The value, whether it passes, and the reason: `0.8, passed: its words`."""
        verdict = "" if self.passed is None else ", passed" if self.passed else ", failed"
        return f"{self.value:g}{verdict}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial that has returned, as a scorer sees it.

    Args:
        case: The case.
        number: The number of the trial of the case, counted from 1.
        seed: The seed of the trial.
        inputs: The arguments that the subject was called with, in their state after the call.
        output: The result.
        seconds: The time that the call took, in seconds.
        usage: The usage of the subject's model requests.
        citations: The sources that the model cited in the last step of the subject.
    """

    case: Case
    number: int
    seed: int
    inputs: Mapping[str, Any]
    output: Any
    seconds: float
    usage: Usage
    citations: tuple[Citation, ...] = ()

    @property
    def expected(self) -> Any:
        """The expected result.

        Raises:
            EvaluationError: The case has none.
        """
        if not self.case.has_expected:
            raise EvaluationError(f"Case {self.case.name!r} has no expected result: give it expected=….")
        return self.case.expected


Scored: TypeAlias = bool | float | Score
"""The result of a scorer: whether the trial passes, a number from 0 to 1, or a score."""

Scorer: TypeAlias = Callable[[Trial], Scored | Awaitable[Scored]]
"""A function of a trial: `def`, which runs in a worker thread, `async def`, or a natural function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickScorer:
    """A scorer that needs no thread, because it cannot block. Made by the functions of this package.

    Args:
        name: Its name in reports.
        score: Returns the score of a trial.
    """

    name: str
    score: Callable[[Trial], Scored]

    def __call__(self, trial: Trial) -> Scored:
        """Return the score of a trial."""
        return self.score(trial)


def scorer_name(scorer: Callable[..., object]) -> str:
    """Return the name of a scorer in reports: its attribute `name`, or its name as a function."""
    for attribute in ("name", "__name__"):
        name = getattr(scorer, attribute, None)
        if isinstance(name, str) and name:
            return name
    return callable_name(scorer)


def checked_scorers(scorers: object) -> Mapping[str, Scorer]:
    """Return scorers by name.

    Raises:
        EvaluationError: There are none, one cannot be called, or two have one name.
    """
    if not isinstance(scorers, Iterable):
        raise EvaluationError(f"scorers is a list of scorers, not {scorers!r}.")
    given = tuple(cast("Iterable[object]", scorers))
    if not given:
        raise EvaluationError(
            "An evaluation needs at least one scorer, such as nighthawk_async.evals.equals()."
        )
    named: dict[str, Scorer] = {}
    for scorer in given:
        if not callable(scorer) or isinstance(scorer, type):
            raise EvaluationError(f"A scorer must be a function of a trial, not {scorer!r}.")
        name = scorer_name(scorer)
        if name in named:
            raise EvaluationError(
                f"Two scorers have the name {name!r}; scores are kept by name. Give one another: name=…."
            )
        named[name] = cast("Scorer", scorer)
    return named


def checked_score(scored: object, pass_mark: float) -> Score:
    """Return the result of a scorer as a score that says whether the trial passes.

    Args:
        scored: The result.
        pass_mark: The least value that passes.

    Raises:
        ScoreError: It is no score, not a finite number, or a plain number outside 0 to 1.
    """
    if isinstance(scored, bool):
        return _PASSED if scored else _FAILED
    score = scored if isinstance(scored, Score) else Score(cast("float", scored))
    value = cast("object", score.value)
    if not isinstance(value, Real):
        raise ScoreError(f"a scorer returns a bool, a number from 0 to 1, or a Score, not {scored!r}")
    if not isinstance(cast("object", score.passed), bool | None):
        raise ScoreError(f"the passed of a score is a bool or None, not {score.passed!r}")
    value = float(value)
    if not math.isfinite(value):
        raise ScoreError(f"a score is a finite number, not {value!r}")
    if score.passed is None and not 0 <= value <= 1:
        raise ScoreError(
            f"a score without passed= is a number from 0 to 1, not {value!r}; return "
            f"Score({value!r}, passed=…)"
        )
    passed = value >= pass_mark if score.passed is None else score.passed
    return Score(value, passed=passed, reason=short_text(str(score.reason)))


def short_text(text: str) -> str:
    """Return a text for reports: cut if it is long, and without half surrogates, which no file can hold."""
    shown = text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
    return shown if shown.isascii() else shown.encode(errors="backslashreplace").decode()


_PASSED = Score(1.0, passed=True)
_FAILED = Score(0.0, passed=False)


_SHOWN_CHARACTERS = 200
_SHOWN_DIFFERENCES = 3


def equals(*, key: Callable[[Any], Any] | None = None, name: str = "equals") -> QuickScorer:
    """Score whether the result equals the expected one.

    Args:
        key: Applied to both before they are compared, for example `str.casefold`; None for as they are. It
            must not block.
        name: The name of the scorer.
    """

    def score(trial: Trial) -> Score:
        output, expected = trial.output, trial.expected
        if key is not None:
            output, expected = key(output), key(expected)
        is_equal = bool(output == expected)
        reason = "" if is_equal else f"{_shown(output)} is not {_shown(expected)}"
        return Score(float(is_equal), passed=is_equal, reason=reason)

    return QuickScorer(name=name, score=score)


def close_to(*, absolute: float = 0.0, relative: float = 1e-9, name: str = "close_to") -> QuickScorer:
    """Score whether a number is within a tolerance of the expected one; sequences and mappings item by item.

    Args:
        absolute: The greatest difference that passes.
        relative: The same as a part of the greater number. The more generous tolerance counts.
        name: The name of the scorer.

    Raises:
        EvaluationError: A tolerance is negative or not a number.
    """
    for tolerance in (absolute, relative):
        if not tolerance >= 0:
            raise EvaluationError(f"A tolerance is a number, at least 0, not {tolerance!r}.")

    def is_close(output: Any, expected: Any) -> bool:
        if _is_number(output) and _is_number(expected):
            return math.isclose(float(output), float(expected), rel_tol=relative, abs_tol=absolute)
        if is_mapping(output) and is_mapping(expected):
            has_same_keys = output.keys() == expected.keys()
            return has_same_keys and all(is_close(output[key], expected[key]) for key in expected)
        if _is_sequence(output) and _is_sequence(expected):
            return len(output) == len(expected) and all(map(is_close, output, expected))
        return bool(output == expected)

    def score(trial: Trial) -> Score:
        passed = is_close(trial.output, trial.expected)
        reason = "" if passed else f"{_shown(trial.output)} is not close to {_shown(trial.expected)}"
        return Score(float(passed), passed=passed, reason=reason)

    return QuickScorer(name=name, score=score)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def matches_schema(schema: Any, *, name: str = "matches_schema") -> QuickScorer:
    """Score whether the result is valid: against a type, as pydantic validates it, or a JSON Schema.

    Args:
        schema: A type, such as a pydantic model or `list[int]`, in strict mode; or a JSON Schema as a
            mapping, which needs the package jsonschema (extra `evals`).
        name: The name of the scorer.

    Raises:
        ConfigurationError: The package jsonschema is not installed.
        EvaluationError: The schema is no valid schema.
    """
    problem = _json_schema_check(schema) if is_json_mapping(schema) else _type_check(schema)

    def score(trial: Trial) -> Score:
        found = problem(trial.output)
        return Score(float(found is None), passed=found is None, reason=found or "")

    return QuickScorer(name=name, score=score)


def _type_check(kind: Any) -> Callable[[object], str | None]:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def problem(output: object) -> str | None:
        try:
            adapter.validate_python(output, strict=True)
        except ValidationError as error:
            return describe_validation_error(error)
        return None

    return problem


def _json_schema_check(schema: object) -> Callable[[object], str | None]:
    try:
        library: Any = import_module("jsonschema")
    except ImportError:
        raise ConfigurationError(
            "A JSON Schema needs the package jsonschema: pip install 'nighthawk-async[evals]'"
        ) from None
    kind = library.validators.validator_for(schema)
    try:
        kind.check_schema(schema)
    except library.SchemaError as error:
        raise EvaluationError(f"This is no JSON Schema: {error.message}") from None
    validator = kind(schema)

    def problem(output: object) -> str | None:
        data = _json_data(output)
        first = next(iter(sorted(validator.iter_errors(data), key=lambda each: each.json_path)), None)
        return None if first is None else f"at {first.json_path}: {first.message}"

    return problem


def json_difference(*, name: str = "json_difference") -> QuickScorer:
    """Score the part of the values in the expected JSON document that the result has at the same place.

    It passes when both are equal; otherwise the reason names the first places that differ. Objects such as
    pydantic models and dataclasses count as the JSON that they become.

    Args:
        name: The name of the scorer.
    """

    def score(trial: Trial) -> Score:
        found, wanted = _json_leaves(_json_data(trial.output)), _json_leaves(_json_data(trial.expected))
        places = found.keys() | wanted.keys()
        different = sorted(
            place
            for place in places
            if place not in found or place not in wanted or not _is_same(found[place], wanted[place])
        )
        texts = [
            f"{place}: {_shown(found[place]) if place in found else 'missing'}, expected "
            f"{_shown(wanted[place]) if place in wanted else 'nothing'}"
            for place in different[:_SHOWN_DIFFERENCES]
        ]
        more = len(different) - len(texts)
        reason = "; ".join([*texts, *([f"and {more} more"] if more else [])])
        return Score(1 - len(different) / len(places), passed=not different, reason=reason)

    return QuickScorer(name=name, score=score)


def _json_data(value: object) -> Any:
    return TypeAdapter(object).dump_python(value, mode="json")


def _is_same(first: Any, second: Any) -> bool:
    """Whether two JSON values are equal; true is not 1, which Python takes for equal."""
    return first == second and isinstance(first, bool) == isinstance(second, bool)


def _json_leaves(value: Any, place: str = "$") -> dict[str, Any]:
    if is_json_object(value) and value:
        parts = [
            (f"{place}.{key}" if key.isidentifier() else f"{place}[{key!r}]", part)
            for key, part in value.items()
        ]
    elif is_json_list(value) and value:
        parts = [(f"{place}[{index}]", part) for index, part in enumerate(value)]
    else:
        return {place: value}
    return {leaf: each for inner, part in parts for leaf, each in _json_leaves(part, inner).items()}


def similar_text(*, at_least: float = 0.8, name: str = "similar_text") -> QuickScorer:
    """Score the similarity of two texts by their words, from 0 to 1.

    It is the part of words that both have in the same order (`difflib.SequenceMatcher`), without regard to
    case and white space.

    Args:
        at_least: The least similarity that passes.
        name: The name of the scorer.
    """
    _check_part("at_least", at_least)

    def score(trial: Trial) -> Score:
        output, expected = (str(text).casefold().split() for text in (trial.output, trial.expected))
        ratio = difflib.SequenceMatcher(None, output, expected, autojunk=False).ratio()
        return Score(
            ratio, passed=ratio >= at_least, reason=f"similarity {ratio:.2f}, at least {at_least:.2f}"
        )

    return QuickScorer(name=name, score=score)


def _check_part(argument: str, value: object) -> None:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise EvaluationError(f"{argument} is a number from 0 to 1, not {value!r}.")


def holds(check: Callable[..., Any], *, name: str | None = None) -> QuickScorer:
    """Score whether a property holds after the block: of the result, and of the objects that it changed.

        holds(lambda cart: not cart.items, name="the cart is empty")
        holds(lambda graph, output: output in graph.nodes, name="it is a node")

    Args:
        check: A function that does not block. Its parameters are filled by their names: with the inputs of
            the trial, which are the objects that the subject has changed, with `output`, `expected` and
            `trial`. The property holds if the result is true.
        name: The name of the scorer; None for that of the function.

    Raises:
        EvaluationError: It is no function with parameters that have names.
    """
    parameters = _parameters_of(check)

    def score(trial: Trial) -> Score:
        values: dict[str, Any] = {**trial.inputs, "output": trial.output, "trial": trial}
        if trial.case.has_expected:
            values["expected"] = trial.expected
        missing = [each for each in parameters if each not in values]
        if missing:
            known = ", ".join(sorted(values))
            raise EvaluationError(
                f"case {trial.case.name!r} has no value for {missing[0]!r}; it has: {known}"
            )
        found = bool(check(**{each: values[each] for each in parameters}))
        return Score(float(found), passed=found, reason="" if found else "it does not hold")

    return QuickScorer(name=name or getattr(check, "__name__", "holds"), score=score)


def _parameters_of(check: Callable[..., Any]) -> tuple[str, ...]:
    try:
        parameters = read_signature(check).parameters.values()
    except (TypeError, ValueError):
        raise EvaluationError(f"holds() needs a function, not {check!r}.") from None
    if inspect.iscoroutinefunction(check) or any(
        each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) for each in parameters
    ):
        raise EvaluationError(
            f"holds() needs a function that is not async and whose parameters have names, not {check!r}; "
            "use an async function of a trial as a scorer itself."
        )
    return tuple(each.name for each in parameters if each.default is each.empty)


def cost_at_most(dollars: Decimal | float, *, name: str = "cost") -> QuickScorer:
    """Score the cost of a trial, which passes up to a limit. The value is the cost, negated.

    Args:
        dollars: The limit, in US dollars. A trial whose cost is unknown cannot be scored.
        name: The name of the scorer.
    """
    limit = Decimal(str(dollars))

    def score(trial: Trial) -> Score:
        if trial.usage.unpriced_requests:
            raise EvaluationError("the cost is unknown, because the price of the model is")
        cost = trial.usage.cost
        return Score(-float(cost), passed=cost <= limit, reason=f"${cost}, at most ${limit}")

    return QuickScorer(name=name, score=score)


def seconds_at_most(seconds: float, *, name: str = "seconds") -> QuickScorer:
    """Score the duration of a trial, which passes up to a limit. The value is the duration, negated.

    Args:
        seconds: The limit, in seconds.
        name: The name of the scorer.
    """

    def score(trial: Trial) -> Score:
        reason = f"{trial.seconds:.3f} s, at most {seconds:g} s"
        return Score(-trial.seconds, passed=trial.seconds <= seconds, reason=reason)

    return QuickScorer(name=name, score=score)


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # an object's own code may raise anything
        text = f"<{type(value).__name__} that cannot be shown>"
    return single_line(text, _SHOWN_CHARACTERS)
