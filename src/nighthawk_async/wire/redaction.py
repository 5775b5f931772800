"""Secrets, and excerpts of foreign text that are short, printable and free of them."""

import re
from collections.abc import Iterator, Sequence
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from ..secret_names import is_secret_field, is_secret_name
from ..types.json import is_list_or_tuple, is_mapping

MAX_EXCERPT_CHARACTERS = 500

_MIN_SECRET_CHARACTERS = 4
_MIN_CUT_CHARACTERS = 6
_LOOKS_SECRET = re.compile(
    r"(?P<scheme>\b[Bb]earer\s+)[\w.~+/=-]{4,}"  # a credential after its scheme
    r"|\b(?:sk|gsk|xai)[-_][\w*.-]{16,}"  # keys of providers, also partly masked ones
    r"|\bAIza[\w-]{10,}"
    r"|\bgh[opsur]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{20,}|\bgl(?:pat|ptt|dt|rt|soat|cbt)-[\w-]{16,}"
    r"|\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"
    r"|\bxox[a-z]-[\w-]{10,}|\bxapp-[\w-]{10,}|hooks\.slack\.com/(?:services|workflows)/[\w/]{16,}"
    r"|\b[rp]k_(?:live|test)_\w{10,}|\bwhsec_\w{16,}"
    r"|\bhf_[A-Za-z0-9]{20,}|\bnpm_[A-Za-z0-9]{20,}|\bpypi-[\w-]{20,}|\bdop_v1_[a-f0-9]{20,}"
    r"|\bya29\.[\w-]{20,}|\bSG\.[\w-]{16,}\.[\w-]{16,}|\bAGE-SECRET-KEY-1[A-Z0-9]{20,}"
    r"|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"  # a JSON Web Token
)
_KEY_HINTS = (
    *("earer", "sk-", "sk_", "xai-", "xai_", "AIza", "xox", "xapp-", "hooks.slack", "eyJ", "ya29.", "SG."),
    *("ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "glptt-", "gldt-", "glrt-", "glsoat-"),
    *("glcbt-", "AKIA", "ASIA", "ABIA", "ACCA", "k_live_", "k_test_", "whsec_", "hf_", "npm_", "pypi-"),
    *("dop_v1_", "AGE-SECRET-KEY-1"),
)
"""Texts, one of which is in every text that `_LOOKS_SECRET` matches."""
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)

_SCHEME = re.compile(r"(?:basic|bearer|digest|negotiate|token|(?:api-?)?key)\s+(?=\S)", re.IGNORECASE)


def find_secrets(value: object, *, is_secret: bool = False) -> Iterator[str]:
    """The texts under secret names at any depth, and the credentials in URLs.

    Args:
        value: Texts, numbers, lists and mappings.
        is_secret: Whether the value itself has a secret name.
    """
    if isinstance(value, str):
        if value:
            yield from (value,) if is_secret else _secrets_of_url(value)
    elif is_mapping(value):
        for name, each in value.items():
            yield from find_secrets(each, is_secret=is_secret_field(str(name), is_secret))
    elif is_list_or_tuple(value):
        for each in value:
            yield from find_secrets(each, is_secret=is_secret)


def _secrets_of_url(text: str) -> Iterator[str]:
    try:
        url = urlsplit(text) if "://" in text else None
        password = url and url.password
    except ValueError:
        return
    if url is None:
        return
    if password:
        yield unquote(password)
    for name, value in parse_qsl(url.query):
        if is_secret_name(name):
            yield value


def credential_forms(value: str) -> tuple[str, ...]:
    """The texts in which a credential may appear: as it is, without its scheme, and URL-encoded.

    Args:
        value: The credential, for example the value of the header `Authorization`.
    """
    forms: dict[str, None] = {}
    scheme = _SCHEME.match(value)
    for text in (value, value[scheme.end() :] if scheme else value):
        forms |= dict.fromkeys((text, quote(text, safe=""), unquote(text)))
    forms.pop("", None)
    return tuple(forms)


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """Replace secrets, and texts that look like a key, by `[redacted]`; the number of lines stays.

    Args:
        text: Any text.
        secrets: The secrets that are known.
    """
    # Long ones first: one secret may contain another.
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _MIN_SECRET_CHARACTERS:
            text = _without_cut_secret(text.replace(secret, "[redacted]"), secret)
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(lambda match: "[redacted]" + "\n" * match[0].count("\n"), text)
    if not any(hint in text for hint in _KEY_HINTS):  # much faster, for long texts
        return text
    return _LOOKS_SECRET.sub(lambda match: f"{match['scheme'] or ''}[redacted]", text)


def _without_cut_secret(text: str, secret: str) -> str:
    """The text without prefixes of a secret that another excerpt cut off, that is before a `…`."""
    *cut, rest = text.split("…")
    return "…".join([*(_without_beginning(each, secret) for each in cut), rest])


def _without_beginning(text: str, secret: str) -> str:
    for length in range(len(secret) - 1, _MIN_CUT_CHARACTERS - 1, -1):
        if text.endswith(secret[:length]):
            return f"{text[:-length]}[redacted]"
    return text


def excerpt(text: str | bytes, secrets: Sequence[str] = (), *, limit: int = MAX_EXCERPT_CHARACTERS) -> str:
    """One line of at most that many characters, with secrets redacted.

    Args:
        text: Any text, or bytes that may be text.
        secrets: The secrets that are known.
        limit: The number of characters to keep.
    """
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    # Redact more than is kept, so that a secret cut in two by the limit is found as well.
    line = " ".join(redact(text[: 4 * limit + 4_096], secrets).split())
    line = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in line)
    return line if len(line) <= limit else line[:limit] + "…"
