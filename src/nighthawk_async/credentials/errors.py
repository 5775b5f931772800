"""The error of a credential, and its text without secrets."""

import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator

from ..causes import is_group
from ..errors import ModelError
from ..pickling import PicklableError, set_public_module
from ..secret_names import masked
from ..wire.redaction import excerpt, redact

_HOST = re.compile(
    r"\bhttps?://(?:[^\s/?#@]*@)?+([A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8})(?=[:/?#\s]|$)"
)
_MOST_HOSTS = 3
_OF_FILES = (PermissionError, FileNotFoundError, NotADirectoryError, IsADirectoryError)


class CredentialError(ModelError):
    """The credential of a request could not be obtained; the request was not sent.

    Args:
        message: The failure, naming the credential.
        is_transient: Whether the next attempt may succeed.
    """

    _without_content = "the credential of a request could not be obtained"


def credential_error(
    name: str, error: BaseException, *, secrets: Iterable[str] = (), is_transient: bool | None = None
) -> CredentialError:
    """The error of a credential, for an error of the code that provides it; its cause where that is harmless.

    Args:
        name: The name of the credential.
        error: The error. An error of a credential is only copied.
        secrets: Texts that must not appear in the message.
        is_transient: Whether the next attempt may succeed; None to judge by the type of the error.
    """
    if isinstance(error, CredentialError):
        copied = CredentialError(error.message, is_transient=error.is_transient)
        copied.__cause__ = error.__cause__
        return copied
    known = tuple(secrets)
    text = excerpt(str(masked(str(error))), known)
    failed = CredentialError(
        f"the credential {name} could not be obtained: {type(error).__name__}{f': {text}' if text else ''}",
        is_transient=is_network_error(error) if is_transient is None else is_transient,
    )
    # A traceback shows the message of the cause, secrets included.
    is_harmless = all(redact(str(masked(text)), known) == text for text in _texts(error))
    failed.__cause__ = error if is_harmless else None
    return failed


def error_of_function(name: str, error: BaseException) -> CredentialError:
    """The error of a credential, for an error of a program's own function: without the text of that error.

    Nobody knows what such a text quotes: often the answer of a login, with the token in it. So it says the
    type, the place in the program, what the system said, and the hosts of addresses. There is no cause, whose
    traceback holds the variables of the function. A `CredentialError` says what its author wants to say.

    Args:
        name: The name of the credential.
        error: The error. An error of a credential is copied, without its cause.
    """
    if isinstance(error, CredentialError):
        return CredentialError(error.message, is_transient=error.is_transient)
    if isinstance(error, OwnTextError):
        return CredentialError(f"the credential {name} could not be obtained: {error}")
    facts = [type(error).__name__, _place_of(error), _said_by_system(error), *_hosts_in(error)]
    shown = ", ".join(filter(None, facts))
    return CredentialError(
        f"the credential {name} could not be obtained: {shown} (the text of the error is not shown, as it "
        "may hold a secret)",
        is_transient=is_network_error(error),
    )


def _place_of(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""


def _said_by_system(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno and error.strerror == os.strerror(error.errno):
        return os.strerror(error.errno)
    return ""


def _hosts_in(error: BaseException) -> list[str]:
    return list(dict.fromkeys(_HOST.findall(str(error))))[:_MOST_HOSTS]


def _texts(error: BaseException) -> Iterator[str]:
    """The texts of an error and of the errors that its traceback shows as well."""
    waiting, seen = [error], set[int]()
    while waiting:
        shown = waiting.pop()
        if id(shown) not in seen:
            seen.add(id(shown))
            yield from (str(shown), *getattr(shown, "__notes__", ()))
            waiting += [each for each in (shown.__cause__, shown.__context__) if each is not None]
            if is_group(shown):
                waiting += shown.exceptions


def is_network_error(error: BaseException) -> bool:
    """Whether an error is that of a network, or reports itself as one that may pass.

    Args:
        error: The error of a function that gets a token.
    """
    if isinstance(error, ModelError):
        return error.is_transient
    if isinstance(error, _OF_FILES):
        return False
    httpx = sys.modules.get("httpx")  # its errors are no errors of the operating system
    return isinstance(error, (OSError, getattr(httpx, "TransportError", OSError)))


set_public_module("credentials", globals())


class OwnTextError(PicklableError, ValueError):
    """An error whose text is the library's own, and quotes nothing; the library alone sees it."""
