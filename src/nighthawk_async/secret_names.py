"""Names of secrets, and hiding of their values."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import cast
from urllib.parse import unquote_plus

from pydantic import SecretBytes, SecretStr

HIDDEN = "<hidden>"
"""The text shown in place of a secret."""

MASK = "**********"
"""The text that replaces a secret in a dump, the same as for pydantic's `SecretStr`."""

_MAX_NAME_CHARACTERS = 100
_VALUES = frozenset({"bytes", "header", "raw", "string", "text", "value"})
_URL_CREDENTIALS = re.compile(r"(?P<scheme>://)[^/?#@]*@")
_URL_WITH_PASSWORD = re.compile(r"\s*[A-Za-z][\w+.-]*://[^/?#\s:@]*:[^/?#\s@]+@\S")
_QUERY_FIELD = re.compile(r"(?P<name>[^&=#]+)=(?P<value>[^&#]*)")

_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORD = re.compile(
    r"\w*(?:auth|authentication|authori[sz]ation|bearer|cookie|credential|jwt|passphrase|password|passwd|secret)s?"
    r"|\w*(?:access|api|auth|private|secret)keys?"
    r"|\w+token"
)
_CREDENTIAL_KINDS = frozenset(
    {"access", "api", "auth", "id", "private", "refresh", "secret", "session", "user"}
)
# A name in which one of these follows a secret word is no secret: `prompt_cache_key`, `eos_token`.
_HARMLESS_KINDS = frozenset(
    {
        "bos",
        "cache",
        "continuation",
        "eos",
        "foreign",
        "group",
        "idempotency",
        "max",
        "min",
        "next",
        "pad",
        "page",
        "partition",
        "primary",
        "public",
        "sort",
    }
    | {"special", "stop", "unk"}
)
# In displayed data, these are ordinary keys and tokens: `row_key`, `last_token`.
_PLAIN_KEYS = frozenset(
    {"answer", "composite", "dict", "event", "hot", "index", "lookup", "map", "natural", "object"}
    | {"routing", "row", "shortcut", "unique"}
    | {"allen", "arrow", "box", "cabinet", "car", "chuck", "door", "drawer", "enter", "escape", "function"}
    | {"garage", "gate", "hex", "hotel", "house", "locker", "major", "minor", "musical", "office", "piano"}
    | {"room", "shift", "skeleton", "spare", "torx", "valve", "wrench"}
)
# In displayed data, an ordinary word in front of other ones (`secret_garden`), or for a thing to eat.
_ORDINARY = frozenset({"cookie", "cookies"})
_BEFORE_SECRETS = frozenset({"access", "api", "code", "data", "key", "keys", "token", "tokens", "word"})
_PLAIN_TOKENS = frozenset({"first", "last"})
# A name that ends in one of these describes a secret; it is not the secret itself.
_ABOUT_SECRETS = frozenset(
    {
        "age",
        "at",
        "bias",
        "budget",
        "count",
        "created",
        "date",
        "endpoint",
        "expires",
        "expiry",
        "id",
        "ids",
        "length",
        "limit",
        "method",
        "mode",
        "name",
        "policy",
        "required",
        "rotated",
        "strength",
        "updated",
    }
    | {"names", "provider", "scheme", "style", "ttl", "type", "uri", "url", "usage"}
)
# Short names of secrets, which count as words of their own: `pinned` and `opinion` are none.
_SHORT_SECRETS = frozenset(
    {"csrf", "csrfmiddlewaretoken", "dburl", "dsn", "hotp", "otp", "pass", "passcode", "pin", "pincode"}
    | {"pwd", "sessionid", "totp", "xsrf"}
)
_LAST_IN_SECRETS = frozenset({"code", "codes", "hash", "seed", "token", *_VALUES})
_OF_ACCOUNTS = frozenset(
    {"account", "admin", "app", "auth", "basic", "cert", "database", "db", "email", "ftp", "git", "http"}
    | {"imap", "keystore", "ldap", "login", "mail", "mongo", "mongodb", "my", "mysql", "oracle", "pg", "pop"}
    | {"postgres", "postgresql", "proxy", "rabbitmq", "redis", "root", "server", "service", "sftp", "smb"}
    | {"smtp", "sql", "ssh", "su", "sudo", "user", "vpn", "web", "wifi"}
)
_PLAIN_PINS = frozenset(
    {
        "analog",
        "bowling",
        "clock",
        "data",
        "digital",
        "drawing",
        "enable",
        "gpio",
        "hair",
        "ic",
        "input",
        "led",
    }
    | {"map", "output", "power", "push", "reset", "rolling", "rx", "safety", "sensor", "signal", "tx"}
)
_CONNECTIONS = frozenset(
    {"amqp", "broker", "celery", "database", "db", "jdbc", "mongo", "mongodb", "mysql", "pg", "postgres"}
    | {"postgresql", "rabbitmq", "redis", "sqlalchemy", "sqlserver"}
)


def is_secret_name(name: str) -> bool:
    """Whether the name of a header, a setting or a field marks its value as a secret.

    Args:
        name: The name, in any style: `api_key`, `apiKey`, `X-Api-Key`.
    """
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    if _are_short_secret(words):
        return True
    if not words or words[-1] in _ABOUT_SECRETS:
        return False
    return any(map(_is_secret_word, ["", *words], words))


def is_secret_field(name: str, is_inside_secret: bool) -> bool:
    """Whether a field of a structure is a secret.

    Args:
        name: Its name.
        is_inside_secret: Whether the structure itself has a secret name.
    """
    return is_secret_name(name) or (is_inside_secret and name.lower() not in _ABOUT_SECRETS)


def hides_value(name: object, value: object) -> bool:
    """Whether the value of a name is hidden from models and people, because it is a secret that is set.

    Fewer names count as secrets here than in `is_secret_name`, because a program cannot work with data that
    is hidden by mistake: `key` and `key_points` are shown, and so is `token_counter`. A name with spaces is
    that of data, such as a glossary: `chuck key`. `secret_garden` and `cookie` are ordinary words.

    Args:
        name: The name of a variable, an attribute or a parameter, or a key of a mapping.
        value: Its data.
    """
    if type(name) is not str or len(name) > _MAX_NAME_CHARACTERS or value is None:
        return False
    return type(value) is not bool and (names_secret_value(name) or has_url_password(value))


def has_url_password(value: object) -> bool:
    """Whether a value is a URL with a password.

    Args:
        value: Any value.
    """
    return type(value) is str and "://" in value and _URL_WITH_PASSWORD.match(value) is not None


@lru_cache(maxsize=4_096)
def names_secret_value(name: str) -> bool:
    """Whether a name is that of a secret, for `hides_value`."""
    if any(map(str.isspace, name)):
        return False
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    if _are_short_secret(words):
        return True
    while words and words[-1] in _VALUES:
        words.pop()
    if not words or words[-1] in _ABOUT_SECRETS:
        return False
    pairs = list(zip(["", *words], words, strict=False))
    before, last = pairs[-1]
    return (
        (last == "token" and before not in _HARMLESS_KINDS | _PLAIN_TOKENS)
        or (last == "key" and before not in {""} | _HARMLESS_KINDS | _PLAIN_KEYS)
        or (last == "tokens" and before in _CREDENTIAL_KINDS)
        or any(word in ("key", "keys") and kind in _CREDENTIAL_KINDS for kind, word in pairs)
        or any(_is_shown_secret(word, words[place + 1 :]) for place, word in enumerate(words))
    ) and not (len(words) == 1 and words[0] in _ORDINARY)


def _is_shown_secret(word: str, following: list[str]) -> bool:
    """Whether a word makes displayed data a secret, and does not only describe what follows it."""
    if word in ("secret", "secrets"):
        return not following or following[0] in _BEFORE_SECRETS
    return _SECRET_WORD.fullmatch(word) is not None


def _are_short_secret(words: Sequence[str]) -> bool:
    """Whether the words of a name are those of a short one: `pwd`, `db_pass`, `otp_code`, `database_url`."""
    rest = list(words)
    while len(rest) > 1 and rest[-1] in _LAST_IN_SECRETS:
        rest.pop()
    last, before = (rest[-1] if rest else ""), (rest[-2] if len(rest) > 1 else "")
    if last == "pass":
        return before in _OF_ACCOUNTS
    if last == "pin":
        return before not in _PLAIN_PINS
    if last in _SHORT_SECRETS:
        return True
    ending = words[-2:]
    return list(ending) in (["session", "id"], ["connection", "string"]) or (
        len(ending) == 2 and ending[0] in _CONNECTIONS and ending[1] in ("url", "uri", "dsn")
    )


def masked(value: object, *, is_secret: bool = False) -> object:
    """Return settings with `MASK` in place of secrets at any depth, credentials in URLs included.

    Args:
        value: Texts, numbers, lists, mappings, and any other values of settings.
        is_secret: Whether the value itself has a secret name.
    """
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value)
        return {
            name: masked(each, is_secret=is_secret_field(str(name), is_secret))
            for name, each in fields.items()
        }
    if isinstance(value, list | tuple):
        return [masked(each, is_secret=is_secret) for each in cast("Iterable[object]", value)]
    if isinstance(value, str):
        return (MASK if is_secret else _masked_url(value)) if value else value
    return MASK if isinstance(value, SecretStr | SecretBytes) or (is_secret and value is not None) else value


def is_masked(value: object) -> bool:
    """Whether settings contain `MASK`, at any depth.

    Args:
        value: The settings.
    """
    if isinstance(value, Mapping):
        return any(map(is_masked, cast("Mapping[object, object]", value).values()))
    if isinstance(value, list | tuple):
        return any(map(is_masked, cast("Iterable[object]", value)))
    return isinstance(value, str) and MASK in value


def _masked_url(text: str) -> str:
    if "://" not in text:
        return text
    start, separator, query = text.partition("?")
    start = _URL_CREDENTIALS.sub(rf"\g<scheme>{MASK}@", start)
    return start + separator + _QUERY_FIELD.sub(_masked_field, query)


def _masked_field(match: re.Match[str]) -> str:
    is_secret = is_secret_name(unquote_plus(match["name"]))
    return f"{match['name']}={MASK}" if is_secret and match["value"] else match[0]


def _is_secret_word(before: str, word: str) -> bool:
    if word in ("key", "token"):
        return before not in _HARMLESS_KINDS
    if word in ("keys", "tokens"):
        return before in _CREDENTIAL_KINDS
    return _SECRET_WORD.fullmatch(word) is not None
