"""A row of the tables of providers. Data only."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field


class RetryRules(Struct, frozen=True, kw_only=True):
    """A provider's rules for retries: the conditions, and the delays.

    Args:
        statuses: The HTTP statuses after which a request is sent again; None for 408, 409, 429 and everything
            from 500.
        first_delay_seconds: Seconds before the first retry; each further delay is twice as long.
        max_delay_seconds: The longest of these delays, in seconds.
        jitter_share: The share of a delay that random jitter may subtract.
        jitter_seconds: The seconds that random jitter may add to a delay.
        max_server_delay_seconds: The longest delay that the server may ask for, in seconds.
        server_jitter_share: The share of a server's delay that random jitter may add to it, so that refused
            requests do not all return at once. Nothing is subtracted: the server would refuse again.
        gives_up_beyond: Whether there is no retry when a server asks for a longer delay; otherwise there is
            one after the usual delay.
    """

    statuses: frozenset[int] | None = None
    first_delay_seconds: float = 0.5
    max_delay_seconds: float = 8.0
    jitter_share: float = 0.25
    jitter_seconds: float = 0.0
    max_server_delay_seconds: float = 120.0
    server_jitter_share: float = 0.25
    gives_up_beyond: bool = True


class UrlPart(Struct, frozen=True, kw_only=True):
    """A part of a base URL that the environment gives.

    Args:
        variables: The environment variables that hold it; the first one that is set counts.
        default: Its value when none is set; empty when one must be.
        form: The text that is put into the URL; `{}` stands for the value.
        special: The text for some values.
        surplus: The end of the value that is left out.
    """

    variables: tuple[str, ...]
    default: str = ""
    form: str = "{}"
    special: Mapping[str, str] = field(default_factory=dict[str, str])
    surplus: str = ""

    def text(self, environment: Mapping[str, str]) -> str:
        """The text for the URL; empty when no variable is set.

        Args:
            environment: Environment variables.
        """
        values = [environment.get(variable, "").strip() for variable in self.variables]
        value = next(filter(None, values), self.default).rstrip("/").removesuffix(self.surplus)
        return self.special.get(value, self.form.format(value)) if value else ""


class ProviderFacts(Struct, frozen=True, kw_only=True):
    """One provider.

    Args:
        protocol: The name of the wire codec.
        base_url: The base URL of its endpoint, unless settings or the environment name another. Names in
            braces stand for parts of it.
        base_url_variable: The environment variable that names another; empty for none.
        key_variables: The environment variables that hold the API key; the first one that is set counts.
        url_parts: The parts of the base URL.
        credentials: The function of `nh.credentials` that authenticates requests without a key; empty for
            none.
        credential_arguments: Its arguments.
        is_preset: Whether it speaks a protocol of another provider, and may have settings of its own.
        models_of: The provider whose table describes its models, prices apart; empty for a table of its own.
        source: The source of the facts.
        tokenizers: The library that has the tokenizers of its models; empty for none.
        has_batches: Whether its batch endpoint is that of its protocol.
        has_files: Whether its endpoint for files is that of its protocol.
        schema_rules: The module in `wire` with the rules of the endpoint for JSON Schemas; empty
            for none.
        strict_places: The places of schemas that the endpoint enforces, when they are in the strict subset
            and the rules of the model are known.
        key_header: The header that carries the key, in lower case.
        key_prefix: The text before the key in that header.
        is_key_required: Whether requests to a base URL beyond this machine need a key.
        version_path: The addition to a base URL whose path does not end in a version, such as `/v1`. Some
            SDKs write their base URLs without one.
        header_variables: Headers that are sent when an environment variable holds their value.
        retry_rules: The rules of retries.
        idempotency_header: The header in which the provider takes a key that is the same for all attempts at
            a request. None of the providers below documents one for requests to models, and their SDKs send
            none.
    """

    protocol: str
    base_url: str
    base_url_variable: str
    key_variables: tuple[str, ...]
    schema_rules: str = ""
    strict_places: frozenset[Literal["tool", "response"]] = frozenset()
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    is_key_required: bool = True
    version_path: str = ""
    header_variables: Mapping[str, str] = field(default_factory=dict[str, str])
    retry_rules: RetryRules = RetryRules()
    idempotency_header: str | None = None
    url_parts: Mapping[str, UrlPart] = field(default_factory=dict[str, UrlPart])
    credentials: Literal["", "aws", "azure", "google"] = ""
    credential_arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    is_preset: bool = False
    models_of: str = ""
    source: str = ""
    tokenizers: Literal["", "tiktoken"] = ""
    has_batches: bool = False
    has_files: bool = False

    def own_base_url(self, environment: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
        """The base URL, and the environment variables that are missing in it, one for each part.

        Args:
            environment: Environment variables.
        """
        parts = {name: part.text(environment) for name, part in self.url_parts.items()}
        missing = [part.variables[0] for name, part in self.url_parts.items() if not parts[name]]
        filled = {name: text or "unset" for name, text in parts.items()}
        return self.base_url.format_map(filled), tuple(dict.fromkeys(missing))

    @property
    def key_variable(self) -> str:
        """The environment variable to name when there is no key; empty when a key cannot be set so."""
        return self.key_variables[-1] if self.key_variables else ""
