"""Requests of HTTP servers under the egress of a run: each host is checked, and reached as it was checked."""

import httpx2

from ..policies.egress.policy import ActiveEgress, host_of


class EgressTransport(httpx2.AsyncHTTPTransport):
    """Sends requests to hosts that may be reached, also those that a server or an authentication names.

    The addresses of a host are resolved here, checked, and connected to as they were checked. No proxies of
    the environment are used.

    Args:
        egress: The hosts that may be reached.
    """

    def __init__(self, egress: ActiveEgress) -> None:
        super().__init__()
        self._egress = egress

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the first address that accepts a connection.

        Raises:
            EgressDeniedError: The host may not be reached.
            ConnectError: It cannot be resolved, or no address accepts a connection.
        """
        host, port = host_of(str(request.url))
        try:
            addresses = await self._egress.addresses_of(host, port)
        except OSError as error:
            raise httpx2.ConnectError(f"{host} cannot be resolved: {error}", request=request) from error
        failure = httpx2.ConnectError(f"{host} has no address", request=request)
        for address in addresses:
            sent = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await super().handle_async_request(sent)
            except httpx2.ConnectError as error:
                failure = error
        raise failure
