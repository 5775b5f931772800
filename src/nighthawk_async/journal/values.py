"""Values of a program as bytes, and back: faithfully, or with an error.

Plain data is written as it is, with tags for what MessagePack has no form for. Objects of the program's
classes are written by their parts, if the type that is declared for the value (a return annotation, the type
of a binding) allows their class, or by functions that the program has registered. A value that does not come
back equal, of the same types and with the same structure, is refused. Nothing is ever imported or called by a
name that is found in a journal.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import Struct
from pydantic import TypeAdapter

from ..types.json import is_json_object
from ..values.canonical_forms import forget_identities, keep_identity
from .errors import JournalValueError
from .registered_types import RegisteredType, registered, registered_names
from .value_comparison import Comparison
from .value_forms import MAX_INTEGER, TAG, TYPED, FormReader, FormWriter, UnstorableError, secret_problem
from .value_leaves import SCALARS
from .value_types import forget_types, known_types

MAX_VALUE_BYTES = 64 * 1024 * 1024
"""The greatest size of one value, in bytes, unless a store has another limit."""

DECLARED = "declared"
"""The tag of data from which pydantic makes a value of the declared type: in forks, and earlier versions."""

_MOST_PLAIN_LEVELS = 100
"""The levels of plain data that can be read back in any case; what is deeper is read when it is written."""

_TEXT = frozenset({str})
_PLAIN = SCALARS | {int, list, dict}


class ValueRules(Struct, frozen=True, kw_only=True):
    """Rules for what a store takes.

    Args:
        max_bytes: The greatest size of one value and one record, in bytes.
        keeps_secrets: Whether it takes secrets, such as `pydantic.SecretStr`: nobody else can read it.
        is_strict: Whether nothing begins that depends on objects of which nobody knows what they are.
    """

    max_bytes: int = MAX_VALUE_BYTES
    keeps_secrets: bool = False
    is_strict: bool = False


DEFAULT_RULES = ValueRules()


def register(
    type_: type[Any],
    *,
    dump: Callable[[Any], object] | None = None,
    load: Callable[[Any], object] | None = None,
    name: str | None = None,
    identity: Callable[[Any], object] | None = None,
) -> None:
    """Have the journal store values of a type, wherever they stand, or say what objects of it are.

        nh.journal.register(Session, identity=lambda session: session.bind_name)

    Args:
        type_: The type. For `dump` and `load`, its subclasses are other types.
        dump: Returns plain data for a value: what JSON has, and tuples, sets, bytes, dates, decimals, paths.
            None where results are never of this type.
        load: Returns the value for that data; given with `dump`.
        name: The name that the journal stores; None for the type's full name. It must stay the same.
        identity: Returns what tells an object of the type, or of a subclass, apart from others, as plain
            data: the arguments of effects and what blocks name are compared in later lives. A constant
            says that the object does not count. It is called often, and must not change anything. None for
            the public attributes of objects; see "Identity" on the page "Durable runs".

    Raises:
        ValueError: Another type is registered under the name.
        TypeError: `dump` and `load` are not given together, or nothing is given.
    """
    if (dump is None) != (load is None) or (dump is None and identity is None):
        raise TypeError("register takes dump= and load= together, or identity=, or all of them")
    if identity is not None:
        keep_identity(type_, identity)
        forget_identities()
    if dump is None or load is None:
        return
    name = name or f"{type_.__module__}.{type_.__qualname__}"
    known = next((kind for kind, each in registered.items() if each.name == name), type_)
    if known is not type_:
        raise ValueError(f"{name!r} is registered for {known.__qualname__}; give another name.")
    registered[type_] = registered_names[name] = RegisteredType(name, dump, load)
    forget_types()


def check_declared(declared: object, *, place: str, rules: ValueRules) -> None:
    """Check that values of a declared type can be stored, before something happens that gives one.

    Args:
        declared: The type; None for none.
        place: The place of the value, for errors.
        rules: The rules of the store.

    Raises:
        JournalValueError: None of them can be, or they have secrets and the store is not encrypted.
    """
    known = known_types(declared)
    problem = known.problem
    if not problem and known.secret and not rules.keeps_secrets:
        problem = secret_problem(known.secret)
    if problem:
        raise JournalValueError(
            f"{place}: a value of the declared type cannot be stored: {problem}. {_REMEDY}", place=place
        )


def encode_value(
    value: object, *, place: str, declared: object = None, rules: ValueRules = DEFAULT_RULES
) -> bytes:
    """Write a value.

    Args:
        value: The value.
        place: Its place, for errors.
        declared: The type that is declared for it; None for none.
        rules: The rules of the store.

    Raises:
        JournalValueError: It does not come back as it is, or is too large.
    """
    is_plain = _is_plain(value)
    body = _written(value, place, declared, is_plain=is_plain, rules=rules)
    if len(body) > rules.max_bytes:
        check_size(body, f"a value of the type {type(value).__qualname__}", place, rules.max_bytes)
    if is_plain or _comes_back(value, body, place, declared):
        return body
    raise _refusal(value, place)


def _comes_back(value: object, body: bytes, place: str, declared: object) -> bool:
    try:
        other = decode_value(body, place=place, declared=declared)
    except JournalValueError:  # it holds itself, or code of the user's types has raised
        return False
    return is_same(value, other, declared)


def write_value(
    value: object, *, place: str, declared: object = None, rules: ValueRules = DEFAULT_RULES
) -> bytes:
    """Write a value as `encode_value` does, without checking that it comes back as it is.

    Args:
        value: The value.
        place: Its place, for errors.
        declared: The type that is declared for it; None for none.
        rules: The rules of the store.

    Raises:
        JournalValueError: There is no way to write it.
    """
    is_plain = _is_plain(value)
    return _written(value, place, declared, is_plain=is_plain, rules=rules)


def _written(value: object, place: str, declared: object, *, is_plain: bool, rules: ValueRules) -> bytes:
    try:
        if is_plain:
            return msgspec.msgpack.encode(value)
        writer = FormWriter(known_types(declared), keeps_secrets=rules.keeps_secrets)
        return msgspec.msgpack.encode(writer.whole(value))
    except UnstorableError as error:
        raise _refusal(value, place, error) from error
    except Exception as error:  # text with halves of characters, too deep, code of the user's types
        raise _refusal(value, place) from error


def check_size(body: bytes, name: str, place: str, max_bytes: int) -> None:
    """Check the size of a value or a record.

    Args:
        body: Its content.
        name: Its name, for errors.
        place: Its place.
        max_bytes: The greatest size, in bytes.

    Raises:
        JournalValueError: It is too large.
    """
    if len(body) > max_bytes:
        raise JournalValueError(
            f"{place}: {name} has {len(body):,} bytes, and the journal stores at most {max_bytes:,} "
            "(max_value_bytes). Store it elsewhere, and return where it is.",
            place=place,
        )


def decode_value(body: bytes, *, place: str, declared: object = None) -> Any:
    """Read a value; see `encode_value`.

    Raises:
        JournalValueError: The stored form does not fit the declared type any more, or a type that was
            registered no longer is.
    """
    form = msgspec.msgpack.decode(body)
    try:
        if not is_json_object(form):
            return FormReader(place).value(form)
        if form.get(TAG) == DECLARED:
            return _validated(FormReader(place).value(form["of"]), declared)
        if form.get(TAG) != TYPED:
            return FormReader(place).value(form)
        reader = FormReader(place, form["types"], known_types(declared), is_shared=form["shared"])
        value = reader.value(form["of"])
        return value if reader.is_whole else _validated(value, declared)
    except JournalValueError:
        raise
    except Exception as error:  # code of the user's types may raise anything
        raise JournalValueError(
            f"{place}: the stored value cannot be read as {declared!r}: {error}", place=place
        ) from error


def is_declared(body: bytes) -> bool:
    """Whether a stored value has classes of the program in it, so that only its declared type reads it."""
    form = msgspec.msgpack.decode(body)
    header = form if is_json_object(form) else {}
    return header.get(TAG) == DECLARED or (header.get(TAG) == TYPED and bool(header["types"]))


def _validated(data: object, declared: object) -> Any:
    if declared is None:  # of a fork, for a function without an annotation
        return data
    return adapter_of(declared).validate_python(data, by_alias=True, by_name=True)


def is_same(value: object, other: object, declared: object = None) -> bool:
    """Whether two values are equal, of the same types, and of the same structure.

    Args:
        value: A value.
        other: Another one.
        declared: The type that is declared for both; None for none.
    """
    try:
        return Comparison(known_types(declared)).is_same(value, other)
    except Exception:  # code of the user's types may raise anything, which counts as no
        return False


def _is_plain(value: object) -> bool:
    """Whether a value is its own form, through and through, and holds no list or dictionary twice."""
    kind = type(value)
    if kind in SCALARS:
        return True
    if type(value) is int:
        return -MAX_INTEGER <= value < MAX_INTEGER
    if kind is not list and kind is not dict:
        return False
    met = {id(value)}
    level: list[Any] = [value]
    for _ in range(_MOST_PLAIN_LEVELS):
        parts = _parts_of_level(level)
        if parts is None:
            return False
        if not parts:
            return True
        count = len(met) + len(parts)
        met.update(map(id, parts))
        if len(met) < count:
            return False
        level = parts
    return False


def _parts_of_level(level: list[Any]) -> list[Any] | None:
    """The lists and dictionaries in some others; None where something else is no plain data."""
    parts: list[Any] = []
    for each in level:
        held: Any = each
        if type(each) is dict:
            if TAG in each or not set(map(type, held)) <= _TEXT:
                return None
            held = held.values()
        kinds = set(map(type, held))  # most lists hold values of few types, so this is all there is to do
        if kinds <= SCALARS:
            continue
        if not kinds <= _PLAIN:
            return None
        if int in kinds and not all(
            type(part) is not int or -MAX_INTEGER <= part < MAX_INTEGER for part in held
        ):
            return None
        if list in kinds or dict in kinds:
            parts += [part for part in held if type(part) is list or type(part) is dict]
    return parts


_REMEDY = (
    "Declare the type (a return annotation with a dataclass, a pydantic model or an enumeration), return "
    "plain data, or register the type with nighthawk_async.journal.register."
)


def _refusal(value: object, place: str, error: UnstorableError | None = None) -> JournalValueError:
    name = type(value).__qualname__
    inside = "" if error is None or error.type_name == name else f", which has a {error.type_name} in it"
    if error is not None and error.reason:
        return JournalValueError(
            f"{place}: a value of the type {name}{inside} cannot be stored: {error.reason}.", place=place
        )
    return JournalValueError(
        f"{place}: a value of the type {name}{inside} cannot be stored faithfully. {_REMEDY}", place=place
    )


@lru_cache(maxsize=512)
def _cached_adapter(declared: Any) -> TypeAdapter[Any]:
    return TypeAdapter(declared)


def adapter_of(declared: object) -> TypeAdapter[Any]:
    """The adapter of a declared type."""
    try:
        return _cached_adapter(declared)
    except TypeError:  # an annotation that cannot be hashed
        return TypeAdapter(cast("Any", declared))
