"""Credentials that are a few headers, the same for every request until they expire."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Self

from ..pickling import checked_picklable
from .refresher import Refresher, Value


class RefreshedCredentials(Generic[Value]):
    """Credentials made from a value that expires.

    Copies are the same object, so that they share its refreshes. A pickle holds the arguments of the function
    that made it, and never a token: another process fetches its own.

    Args:
        shown: Its text in errors and as a `repr`, without secrets.
        refresher: Provides the value.
        make: Makes an equal object in another process.
        arguments: The arguments of that function.
    """

    def __init__(
        self,
        shown: str,
        refresher: Refresher[Value],
        *,
        make: Callable[..., object],
        arguments: Mapping[str, Any],
    ) -> None:
        self._shown = shown
        self._refresher = refresher
        self._make = make
        self._arguments = dict(arguments)

    def __repr__(self) -> str:
        return self._shown

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        advice = (
            f"{self._shown} cannot be sent to another process: a function must be found by its name, and an "
            "object of a provider's library may hold a secret, which no pickle of a credential contains"
        )
        if secret := self._arguments.get("credentials"):
            raise TypeError(f"{advice} ({type(secret).__name__})")
        return _remade, checked_picklable((self._make, self._arguments), advice)

    def known_secrets(self) -> tuple[str, ...]:
        """The latest secrets, which recordings must not contain."""
        return self._refresher.secrets


class HeaderCredentials(RefreshedCredentials[Mapping[str, str]]):
    """Adds headers, names in lower case; implements `types.model.RefreshableCredentials`."""

    async def headers(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers.

        Args:
            method: The method.
            url: The URL.
            body: The body.

        Raises:
            CredentialError: They could not be obtained.
        """
        return await self._refresher.get()

    def refused(self, headers: Mapping[str, str]) -> bool:
        """Note that headers were refused; returns whether the next ones may be accepted.

        Args:
            headers: The headers of the request.
        """
        return self._refresher.refused(lambda ours: ours.items() <= headers.items())


def _remade(make: Callable[..., object], arguments: Mapping[str, Any]) -> object:
    return make(**arguments)
