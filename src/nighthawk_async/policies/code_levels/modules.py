"""The standard modules that code can import, each as a module with its harmless members alone.

No member leads to another module, reads attributes by text, opens files, waits in the operating system, or
changes what the program and its modules share.
"""

import importlib
import random
import types
from collections.abc import Callable, Mapping
from typing import Any, cast

from .members import ShownModule
from .replaced_members import REPLACED

_ALL = "*"
"""Stands for all public members that are no modules."""

_MEMBERS: Mapping[str, str] = {
    "abc": "ABC abstractmethod",
    "anyio": (
        "BrokenResourceError CancelScope CapacityLimiter ClosedResourceError Condition EndOfStream Event "
        "Lock Semaphore WouldBlock create_memory_object_stream create_task_group current_time fail_after "
        "get_cancelled_exc_class move_on_after sleep sleep_forever sleep_until"
    ),
    "array": "array",
    "asyncio": (
        "ALL_COMPLETED BoundedSemaphore CancelledError Condition Event FIRST_COMPLETED FIRST_EXCEPTION "
        "InvalidStateError LifoQueue Lock PriorityQueue Queue QueueEmpty QueueFull Semaphore TaskGroup "
        "Timeout TimeoutError as_completed create_task ensure_future gather iscoroutine isfuture shield "
        "sleep timeout wait wait_for"
    ),
    "base64": (
        "a85decode a85encode b16decode b16encode b32decode b32encode b64decode b64encode b85decode "
        "b85encode decodebytes encodebytes standard_b64decode standard_b64encode urlsafe_b64decode "
        "urlsafe_b64encode"
    ),
    "binascii": "Error a2b_base64 a2b_hex b2a_base64 b2a_hex crc32 hexlify unhexlify",
    "bisect": _ALL,
    "calendar": (
        "Calendar HTMLCalendar TextCalendar calendar day_abbr day_name isleap leapdays month month_abbr "
        "month_name monthcalendar monthrange timegm weekday weekheader MONDAY TUESDAY WEDNESDAY THURSDAY "
        "FRIDAY SATURDAY SUNDAY"
    ),
    "cmath": _ALL,
    "collections": ("ChainMap Counter OrderedDict UserDict UserList defaultdict deque namedtuple"),
    "collections.abc": _ALL,
    "colorsys": _ALL,
    "contextlib": (
        "AsyncExitStack ExitStack aclosing asynccontextmanager closing contextmanager nullcontext suppress"
    ),
    "copy": "copy deepcopy",
    "csv": (
        "DictReader DictWriter Dialect Error QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE QUOTE_NONNUMERIC Sniffer "
        "excel excel_tab reader unix_dialect writer"
    ),
    "dataclasses": (
        "MISSING FrozenInstanceError KW_ONLY asdict astuple dataclass field fields is_dataclass replace"
    ),
    "datetime": _ALL,
    "decimal": (
        "Clamped Context Decimal DecimalException DivisionByZero FloatOperation Inexact InvalidOperation "
        "MAX_EMAX MAX_PREC Overflow ROUND_05UP ROUND_CEILING ROUND_DOWN ROUND_FLOOR ROUND_HALF_DOWN "
        "ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP Rounded Subnormal Underflow"
    ),
    "difflib": _ALL,
    "email.utils": "formataddr format_datetime parseaddr parsedate_to_datetime",
    "enum": "Enum Flag IntEnum IntFlag StrEnum auto unique",
    "fnmatch": _ALL,
    "fractions": _ALL,
    "functools": "cache cached_property cmp_to_key lru_cache partial reduce",
    "graphlib": _ALL,
    "hashlib": (
        "blake2b blake2s md5 new sha1 sha224 sha256 sha384 sha3_224 sha3_256 sha3_384 sha3_512 sha512 "
        "shake_128 shake_256"
    ),
    "heapq": _ALL,
    "hmac": "compare_digest digest new",
    "html": "escape unescape",
    "io": "BytesIO StringIO",
    "ipaddress": _ALL,
    "itertools": _ALL,
    "json": "JSONDecodeError JSONDecoder JSONEncoder dump dumps load loads",
    "keyword": _ALL,
    "math": _ALL,
    "numbers": _ALL,
    "operator": _ALL,
    "pathlib": "PurePath PurePosixPath PureWindowsPath",
    "pprint": "pformat",
    "random": ("Random choice choices gauss randint random randrange sample seed shuffle triangular uniform"),
    "re": _ALL,
    "secrets": "choice compare_digest randbelow randbits token_bytes token_hex token_urlsafe",
    "shlex": "join quote split",
    "statistics": _ALL,
    "string": (
        "Template ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits octdigits "
        "printable punctuation whitespace"
    ),
    "struct": _ALL,
    "textwrap": _ALL,
    "time": (
        "asctime ctime gmtime localtime mktime monotonic monotonic_ns perf_counter perf_counter_ns "
        "process_time strftime strptime struct_time time time_ns timezone tzname"
    ),
    "trio": (
        "BrokenResourceError CancelScope Cancelled CapacityLimiter ClosedResourceError Condition "
        "EndOfChannel Event Lock Semaphore TooSlowError WouldBlock current_time fail_after fail_at "
        "move_on_after move_on_at open_memory_channel open_nursery sleep sleep_forever sleep_until"
    ),
    "types": "MappingProxyType NoneType SimpleNamespace",
    "typing": (
        "Annotated Any AsyncIterable AsyncIterator Awaitable Callable ClassVar Collection Container "
        "Coroutine DefaultDict Deque Dict Final FrozenSet Generator Generic Hashable Iterable Iterator "
        "List Literal Mapping MutableMapping MutableSequence NamedTuple Never NewType NoReturn Optional "
        "OrderedDict Protocol Required NotRequired Self Sequence Set Sized SupportsFloat SupportsInt "
        "Tuple Type TypeAlias TypeVar TypedDict Union assert_never cast overload reveal_type "
        "runtime_checkable"
    ),
    "unicodedata": _ALL,
    "urllib.parse": (
        "ParseResult SplitResult parse_qs parse_qsl quote quote_plus unquote unquote_plus urldefrag "
        "urlencode urljoin urlparse urlsplit urlunparse urlunsplit"
    ),
    "uuid": "NAMESPACE_DNS NAMESPACE_OID NAMESPACE_URL NAMESPACE_X500 UUID uuid3 uuid4 uuid5",
    "zoneinfo": "ZoneInfo ZoneInfoNotFoundError available_timezones",
}
_OUTSIDE: Mapping[str, frozenset[str]] = {
    "operator": frozenset({"attrgetter", "call", "methodcaller"}),
    "re": frozenset({"purge", "template"}),
    "fnmatch": frozenset({"functools"}),
}
"""Members that `*` leaves out."""

_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "collections": ("abc",),
    "email": ("utils",),
    "urllib": ("parse",),
}
"""The modules that a package gives access to."""

_RANDOM = random.Random()
"""The generator of `random` in code of steps, so that `seed` does not change that of the program."""

_shown: dict[str, ShownModule] = {}


def is_shown(name: str) -> bool:
    """Whether code can import a module."""
    return name in _MEMBERS or name in _PACKAGES


def shown_module(name: str) -> ShownModule:
    """Return a module as code sees it.

    Args:
        name: The name of one that `is_shown`.

    Raises:
        ImportError: It is not installed.
    """
    known = _shown.get(name)
    if known is None:
        known = _shown[name] = ShownModule(name, doc="")
        vars(known).update(_members_of(name))
        vars(known).update((each, shown_module(f"{name}.{each}")) for each in _PACKAGES.get(name, ()))
    return known


def _members_of(name: str) -> Mapping[str, object]:
    listed = _MEMBERS.get(name)
    if listed is None:
        return {}
    source: Any = _RANDOM if name == "random" else importlib.import_module(name)
    names = _public(source, name) if listed == _ALL else listed.split()
    found = {each: getattr(source, each) for each in names if hasattr(source, each)}
    if name == "random":
        found["Random"] = random.Random
    found.update(REPLACED.get(name, {}))
    return {each: value for each, value in found.items() if not isinstance(value, types.ModuleType)}


def _public(source: types.ModuleType, name: str) -> list[str]:
    left_out = _OUTSIDE.get(name, frozenset())
    declared: object = getattr(source, "__all__", None) or vars(source)
    return [each for each in cast("list[str]", declared) if each[:1] != "_" and each not in left_out]


def import_for(shown_modules: Callable[[str], types.ModuleType | None]) -> Callable[..., object]:
    """Return the `__import__` of the code of one step.

    Args:
        shown_modules: Returns the module of a name that the prompt shows; None for others.
    """

    def import_shown(
        name: str,
        globals: object = None,
        locals: object = None,
        fromlist: object = (),
        level: int = 0,
    ) -> object:
        if type(fromlist) is list:  # by functions that are written in C: they take the module from elsewhere
            return importlib.__import__(name, cast("Any", globals), cast("Any", locals), (), level)
        root = name if fromlist else name.partition(".")[0]
        if level == 0 and is_shown(name):
            return shown_module(root)
        module = shown_modules(root)
        if level or module is None:
            raise ImportError(f"code of this block cannot import {name!r}", name=name)
        return module

    return import_shown
