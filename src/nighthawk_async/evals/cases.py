"""Cases: the inputs of a subject, and the expected result; their order, and the seeds of their trials."""

import copy
import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast, get_args

from ..parallel.task_node import UNSTABLE
from ..signatures import read_signature
from ..types.json import is_list_of_texts, is_mapping, is_text
from ..types.unset import UNSET, Unset
from ..values.error_text import describe_error
from ..values.stable_digest import digest_of_version_1
from .errors import CaseError

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})


Severity: TypeAlias = Literal["blocking", "warning", "informational"]
"""The weight of a case in a gate. A failed `blocking` case counts against it, a failed `warning` is only
told, and an `informational` one is only in the report."""

SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True, slots=True)
class Case:
    """One case: the arguments of the subject, and the expectation.

        Case("good", inputs={"review": "Four stars."}, expected=4)
        Case("no number", inputs={"review": "Hm."}, raises=ValueError)

    Args:
        name: Its name, unique in an evaluation. Reports are compared by it.
        inputs: The keyword arguments of the subject. Each trial gets a deep copy of its own, because a block
            may change objects in place. A function that returns them is called for each trial, for objects
            that cannot be copied.
        expected: The expected result, for scorers; UNSET for none.
        raises: The type of the exception that the subject must raise, or its name. The scorers then do not
            apply: a trial passes if it raises that.
        tags: Words to select cases by.
        metadata: Anything more about it, for scorers.
        severity: The weight of the case in a gate.
    """

    name: str
    _: KW_ONLY
    inputs: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(
        default_factory=lambda: MappingProxyType[str, Any]({})
    )
    expected: Any = UNSET
    raises: type[Exception] | str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType[str, Any]({}))
    severity: Severity = "blocking"

    def __post_init__(self) -> None:
        if not is_text(self.name) or not self.name.strip():
            raise CaseError(f"The name of a case must be a text that is not empty, not {self.name!r}.")
        if not is_list_of_texts(self.tags):
            raise CaseError(f"Case {self.name!r}: tags must be a tuple of texts, not {self.tags!r}.")
        if self.severity not in SEVERITIES:
            raise CaseError(
                f"Case {self.name!r}: severity is one of {', '.join(SEVERITIES)}, not {self.severity!r}."
            )
        for text in (self.name, *self.tags):
            if not is_encodable(text):
                raise CaseError(f"Case {self.name!r}: {text!r} has half of a surrogate pair, no character.")
        if not callable(self.inputs) and not _is_arguments(self.inputs):
            raise CaseError(
                f"Case {self.name!r}: inputs must be a mapping of parameter names to values, or a function "
                f"that returns one, not {self.inputs!r}."
            )
        if not _is_expectation(self.raises):
            raise CaseError(f"Case {self.name!r}: raises must be a type of Exception, not {self.raises!r}.")

    @property
    def has_expected(self) -> bool:
        """Whether a result is expected."""
        return not isinstance(self.expected, Unset)

    def build_inputs(self) -> dict[str, Any]:
        """Return the inputs for one trial.

        Raises:
            CaseError: They cannot be made or copied.
        """
        given = self.inputs
        if callable(given):
            try:
                made = given()
            except Exception as error:  # the program's own code, which may raise anything
                raise CaseError(
                    f"Case {self.name!r}: its inputs cannot be made: {describe_error(error)}"
                ) from error
            if not _is_arguments(made):
                raise CaseError(
                    f"Case {self.name!r}: the function of its inputs must return a mapping of parameter "
                    f"names to values, not {made!r}."
                )
            return dict(made)
        if _ATOMS.issuperset(map(type, given.values())):
            return dict(given)
        try:
            return copy.deepcopy(dict(given))
        except Exception as error:  # an object's own copying may raise anything
            raise CaseError(
                f"Case {self.name!r}: its inputs cannot be copied for each trial ({describe_error(error)}); "
                "pass a function that makes them: inputs=lambda: {…}"
            ) from error

    def expects_error(self, error: Exception) -> bool:
        """Whether an exception is the expected one."""
        if self.raises is None:
            return False
        if isinstance(self.raises, str):
            return any(
                self.raises in (each.__name__, f"{each.__module__}.{each.__qualname__}")
                for each in type(error).__mro__
            )
        return isinstance(error, self.raises)


def is_encodable(text: str) -> bool:
    """Whether a text can be written to a file: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_expectation(raises: object) -> bool:
    is_type = isinstance(raises, type) and issubclass(raises, Exception)
    return raises is None or (isinstance(raises, str) and raises != "") or is_type


def _is_arguments(inputs: object) -> bool:
    if not is_mapping(inputs):
        return False
    return all(isinstance(name, str) for name in inputs)


class Subject(Protocol):
    """The function that is evaluated: natural or not, async or synchronous."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result, or an awaitable of it."""
        ...


def checked_cases(cases: Iterable[Case], subject: Subject) -> tuple[Case, ...]:
    """Check cases before anything is spent, and return them.

    Args:
        cases: The cases.
        subject: The function that takes their inputs.

    Raises:
        CaseError: There are none, a name is there twice, or inputs cannot be built or do not fit the subject.
    """
    if not isinstance(cast("object", cases), Iterable):
        raise CaseError(f"cases is a list of cases, not {cases!r}.")
    given = tuple(cases)
    if not given:
        raise CaseError("An evaluation needs at least one case.")
    signature = _signature_of(subject)
    names: set[str] = set()
    for case in given:
        if not isinstance(cast("object", case), Case):
            raise CaseError(f"A case must be a nighthawk_async.evals.Case, not {case!r}.")
        if case.name in names:
            raise CaseError(f"Two cases have the name {case.name!r}; reports are compared by names.")
        names.add(case.name)
        inputs = case.build_inputs()
        if signature is not None:
            try:
                signature.bind(**inputs)
            except TypeError as error:
                raise CaseError(f"Case {case.name!r}: its inputs do not fit the subject: {error}") from None
    return given


def _signature_of(subject: Subject) -> inspect.Signature | None:
    try:
        return read_signature(subject)
    except (TypeError, ValueError):  # some callables of C have none
        return None


def case_digest(case: Case) -> str | None:
    """Return the digest of the inputs and the expectation; None when it is not the same in every process."""
    raises = case.raises if isinstance(case.raises, str | None) else case.raises.__name__
    try:
        digest = digest_of_version_1(
            [case.build_inputs(), case.expected if case.has_expected else None, raises]
        )
    except CaseError:
        return None
    return None if digest.endswith(UNSTABLE) else digest


_SEED_BYTES = 4


def trial_seed(seed: int, case: str, number: int) -> int:
    """Return the seed of a trial, from 0 to 2**31 - 1, which every provider accepts.

    Args:
        seed: The seed of the evaluation.
        case: The name of the case.
        number: The number of the trial.
    """
    text = f"{seed}\0{case}\0{number}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:_SEED_BYTES], "big") >> 1


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Item = TypeVar("Item", bound=_Named)


def case_order(seed: int, cases: Iterable[Item]) -> list[Item]:
    """Return cases in a random order, which depends on the seed and their names alone.

    Args:
        seed: The seed of the evaluation.
        cases: The cases, or their results.
    """
    return sorted(cases, key=lambda case: (trial_seed(seed, case.name, 0), case.name))
