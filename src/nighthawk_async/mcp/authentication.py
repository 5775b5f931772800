"""The authentication of the requests to a server: that of the program, with errors that carry no token."""

from collections.abc import AsyncGenerator
from typing import Any, cast

import httpx2
from mcp.client.auth import OAuthFlowError

from ..credentials.errors import CredentialError, error_of_function


class Authentication(httpx2.Auth):
    """Authenticates as another one does. Its errors are shown by type and place: they may quote a token.

    Those of the package `mcp` stay as they are.

    Args:
        auth: What the program has given: an `httpx2.Auth`, or a function of a request.
    """

    def __init__(self, auth: Any) -> None:
        self._auth = auth if isinstance(auth, httpx2.Auth) else httpx2.FunctionAuth(auth)
        self._name = f"auth={getattr(auth, '__name__', type(auth).__name__)}"

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Run the flow of the other one."""
        flow = self._auth.async_auth_flow(request)
        failed: CredentialError | None = None
        try:
            sent = await anext(flow)
            while True:
                sent = await flow.asend((yield sent))
        except (StopAsyncIteration, GeneratorExit):
            pass
        except OAuthFlowError:
            raise
        except Exception as error:
            failed = error_of_function(self._name, error)
        finally:
            await flow.aclose()
        if failed is not None:  # here, where it gets no context: that error may hold a secret
            raise failed


def screened(auth: object) -> Any:
    """Return what `httpx2` takes for an authentication; pairs of a name and a password run no code."""
    if isinstance(auth, httpx2.Auth) or callable(auth):
        return Authentication(auth)
    return cast("Any", auth)
