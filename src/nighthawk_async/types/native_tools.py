"""Tools that a provider carries out by itself, as the setting `native_tools` gives them, and their calls.

Each protocol has its own form of them; `wire.native_tools` says which options it has.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias, cast

from ..errors import ConfigurationError

NativeToolName: TypeAlias = Literal["web_search", "code_execution", "file_search"]
"""A name of a tool of providers, the same for every provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLocation:
    """The approximate location for which a web search finds results. At least one field is given.

    Args:
        city: The name of the city.
        region: The name of the region, state or province.
        country: The country, as a code of two letters such as `DE`.
        timezone: The time zone by its IANA name, such as `Europe/Berlin`.

    Raises:
        ConfigurationError: A field has a bad value, or none is given.
    """

    city: str | None = None
    region: str | None = None
    country: str | None = None
    timezone: str | None = None

    def __post_init__(self) -> None:
        given = [(each.name, getattr(self, each.name)) for each in fields(self)]
        for name, value in given:
            if value is not None and not _is_text(value):
                raise ConfigurationError(f"UserLocation: {name} is a text, not {value!r}.")
        if all(value is None for _, value in given):
            raise ConfigurationError("UserLocation: give one of city, region, country and timezone.")
        if self.country is not None and not (len(self.country) == 2 and self.country.isalpha()):
            raise ConfigurationError(
                f"UserLocation: country is a code of two letters, such as 'DE', not {self.country!r}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSearch:
    """Searches the web.

    Args:
        max_uses: The most searches of one request; None for no limit but that of the provider.
        allowed_domains: The only domains of results, without `https://`; none for all.
        blocked_domains: Domains that no result may have. Not together with `allowed_domains`.
        user_location: The location for which to search.
        context_size: The amount of what was found that the model reads.

    Raises:
        ConfigurationError: A field has a bad value.
    """

    name: Literal["web_search"] = field(default="web_search", init=False)
    max_uses: int | None = None
    allowed_domains: Sequence[str] = ()
    blocked_domains: Sequence[str] = ()
    user_location: UserLocation | None = None
    context_size: Literal["low", "medium", "high"] | None = None

    def __post_init__(self) -> None:
        _check_count("WebSearch", "max_uses", self.max_uses)
        for name in ("allowed_domains", "blocked_domains"):
            domains = _texts("WebSearch", name, getattr(self, name), example="example.com")
            object.__setattr__(self, name, domains)
            if wrong := next((each for each in domains if "://" in each or set(each) & set(" ,?#")), None):
                raise ConfigurationError(
                    f"WebSearch: {name} holds {wrong!r}; write a domain alone, such as 'example.com'."
                )
        if self.allowed_domains and self.blocked_domains:
            raise ConfigurationError("WebSearch: give allowed_domains or blocked_domains, not both.")
        location = cast("object", self.user_location)
        if not isinstance(location, UserLocation | None):
            raise ConfigurationError(f"WebSearch: user_location is a UserLocation, not {location!r}.")
        if self.context_size not in (None, "low", "medium", "high"):
            raise ConfigurationError(
                f"WebSearch: context_size is 'low', 'medium' or 'high', not {self.context_size!r}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExecution:
    """Runs code of the model in a container of the provider.

    Args:
        container: The provider's identifier of a container to use; None for a new one.

    Raises:
        ConfigurationError: A field has a bad value.
    """

    name: Literal["code_execution"] = field(default="code_execution", init=False)
    container: str | None = None

    def __post_init__(self) -> None:
        if self.container is not None and not _is_text(self.container):
            raise ConfigurationError(f"CodeExecution: container is a text, not {self.container!r}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSearch:
    """Searches files that were uploaded to stores of the provider.

    Args:
        vector_store_ids: The provider's identifiers of the stores to search, at least one.
        max_uses: The most searches of one request; None for no limit but that of the provider.
        max_results: The most results of one search; None for the provider's own number.

    Raises:
        ConfigurationError: A field has a bad value.
    """

    name: Literal["file_search"] = field(default="file_search", init=False)
    vector_store_ids: Sequence[str]
    max_uses: int | None = None
    max_results: int | None = None

    def __post_init__(self) -> None:
        stores = _texts("FileSearch", "vector_store_ids", self.vector_store_ids, example="vs_1")
        object.__setattr__(self, "vector_store_ids", stores)
        if not stores:
            raise ConfigurationError("FileSearch: vector_store_ids names no store; give at least one.")
        _check_count("FileSearch", "max_uses", self.max_uses)
        _check_count("FileSearch", "max_results", self.max_results)


NativeTool: TypeAlias = WebSearch | CodeExecution | FileSearch
"""A tool that the provider carries out by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCallStarted:
    """The provider begins to carry out a tool by itself.

    Args:
        id: The provider's identifier of the call.
        name: The name of the tool, one of `NativeToolName` or the provider's own word.
        arguments: The arguments as JSON; empty while they are unknown.
    """

    id: str
    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCallFinished:
    """The provider has carried out a tool by itself; the result is part of `ResponseFinished`, too.

    Args:
        id: The provider's identifier of the call, which may have started in an earlier response.
        name: The name of the tool, as in `NativeCallStarted`.
        arguments: The arguments as JSON; empty for unknown.
        result: The result as JSON, as far as the provider shows it, without encrypted parts; empty for
            unknown.
        is_error: Whether the call failed.
    """

    id: str
    name: str
    arguments: str = ""
    result: str = ""
    is_error: bool = False


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _check_count(tool: str, name: str, value: object) -> None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return
    raise ConfigurationError(f"{tool}: {name} is a whole number of at least 1, or None, not {value!r}.")


def _texts(tool: str, name: str, value: object, *, example: str) -> tuple[str, ...]:
    """The texts of a list, without the blanks around them; a text alone is no list."""
    if not isinstance(value, str | bytes) and isinstance(value, Iterable):
        texts = tuple(cast("Iterable[object]", value))
        if all(map(_is_text, texts)):
            return tuple([str(each).strip() for each in texts])
    raise ConfigurationError(f"{tool}: {name} is a list of texts, such as [{example!r}], not {value!r}.")
