"""`egress=`: the hosts that a run may reach; denied before a connection is made."""

import socket
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import EgressDeniedError
from nighthawk_async.library import DeniedAddressError, FetchError, ForbiddenAddressError, Web
from nighthawk_async.testing import CallbackExecutor, ScriptedModel, model_response, pass_response, tool_call

pytestmark = pytest.mark.anyio

PUBLIC, PRIVATE = "93.184.216.34", "10.1.2.3"


def permits(egress: Any, host: str, port: int = 443, addresses: list[str] | None = None) -> bool:
    try:
        egress.check(host, port)
        egress.check(host, port, addresses or [PUBLIC])
    except EgressDeniedError:
        return False
    return True


@pytest.mark.parametrize(
    ("lists", "host", "port", "address", "is_permitted"),
    [
        ({}, "a.example", 443, PRIVATE, True),
        ({"allow": ["a.example"]}, "a.example", 443, PUBLIC, True),
        ({"allow": ["a.example"]}, "A.EXAMPLE.", 443, PRIVATE, True),
        ({"allow": ["a.example"]}, "b.example", 443, PUBLIC, False),
        ({"allow": ["a.example"]}, "x.a.example", 443, PUBLIC, False),
        ({"allow": ["a.example"]}, "a.example.evil.com", 443, PUBLIC, False),
        ({"allow": ["a.example:443"]}, "a.example", 80, PUBLIC, False),
        ({"allow": "a.example"}, "a.example", 80, PUBLIC, True),
        ({"allow": ["*.a.example"]}, "x.a.example", 443, PUBLIC, True),
        ({"allow": ["*.a.example"]}, "a.example", 443, PUBLIC, False),
        ({"allow": ["*.a.example"]}, "x.a.example", 443, PRIVATE, False),
        ({"allow": ["*.a.example", "10.0.0.0/8"]}, "x.a.example", 443, PRIVATE, True),
        ({"allow": ["10.0.0.0/8"]}, "a.example", 443, PRIVATE, True),
        ({"allow": ["10.0.0.0/8"]}, "a.example", 443, "::ffff:10.1.2.3", True),
        ({"allow": ["10.0.0.0/8"]}, "a.example", 443, PUBLIC, False),
        ({"allow": ["public"]}, "a.example", 443, PUBLIC, True),
        ({"allow": ["public"]}, "a.example", 443, "169.254.169.254", False),
        ({"allow": ["private"]}, "a.example", 443, "127.0.0.1", True),
        ({"allow": ["private"]}, "a.example", 443, PUBLIC, False),
        ({"allow": []}, "a.example", 443, PUBLIC, False),
        ({"deny": ["a.example"]}, "a.example", 443, PUBLIC, False),
        ({"deny": ["*.example"]}, "a.example", 443, PUBLIC, False),
        ({"deny": ["*.example"]}, "example", 443, PUBLIC, True),
        ({"deny": ["private"]}, "a.example", 443, PRIVATE, False),
        ({"deny": ["private"]}, "a.example", 443, "fe80::1%eth0", False),
        ({"deny": ["public"]}, "a.example", 443, PUBLIC, False),
        ({"deny": ["10.0.0.0/8"], "allow": ["a.example"]}, "a.example", 443, PRIVATE, False),
        ({"deny": ["10.0.0.0/8"], "allow": ["a.example"]}, "a.example", 443, "64:ff9b::a01:203", False),
        ({"deny": ["a.example"], "allow": ["a.example"]}, "a.example", 443, PUBLIC, False),
    ],
)
def test_lists_of_hosts(
    lists: dict[str, Any], host: str, port: int, address: str, is_permitted: bool
) -> None:
    assert permits(nh.egress(**lists), host, port, [address]) is is_permitted


def test_one_denied_address_is_enough_and_names_are_refused_before_they_are_resolved() -> None:
    assert not permits(nh.egress(deny=["private"]), "a.example", 443, [PUBLIC, PRIVATE])
    with pytest.raises(EgressDeniedError):
        nh.egress(allow=["a.example"]).check("b.example", 443)
    nh.egress(allow=["public"]).check("b.example", 443)


def test_bad_lists_are_refused() -> None:
    for lists in ({"allow": ["a b"]}, {"deny": [""]}, {"allow": [1]}, {"deny": 5}, {"allow": ["a:x"]}):
        with pytest.raises(nh.NighthawkError, match=r"allow|deny"):
            nh.egress(**lists)  # type: ignore[arg-type]
    with pytest.raises(nh.NighthawkError, match="egress must be one that"):
        running(egress=["a.example"])


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A port of this machine that accepts connections and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def was_reached(server: socket.socket) -> bool:
    try:
        connection, _ = server.accept()
    except BlockingIOError:
        return False
    connection.close()
    return True


def running(**arguments: Any) -> Any:
    return nh.run(CallbackExecutor(lambda call: pass_response()), **arguments)


async def test_pages_are_not_fetched_from_denied_hosts(listener: socket.socket) -> None:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    web = Web(allow="127.0.0.0/8")
    async with running(egress=nh.egress(deny=["127.0.0.1"])):
        with pytest.raises(DeniedAddressError, match=r"127\.0\.0\.1 is denied by the egress") as caught:
            await web.fetch(url)
        assert isinstance(caught.value, EgressDeniedError | ForbiddenAddressError | FetchError)
        with nh.scope(egress=nh.egress(allow=["127.0.0.1"])), pytest.raises(EgressDeniedError):
            await web.fetch(url)
        with nh.scope(mode="replace", egress=nh.egress()), pytest.raises(EgressDeniedError):
            await web.fetch(url)
        async with running():  # a run inside
            with pytest.raises(EgressDeniedError):
                await web.fetch(url)
    assert not was_reached(listener)
    async with running(egress=nh.egress(allow=["127.0.0.1"])):
        with pytest.raises(ForbiddenAddressError) as refused:
            await nh.library.fetch(url)  # not of the public internet: it allows nothing that Web does not
        assert not isinstance(refused.value, EgressDeniedError)
        with pytest.raises(FetchError, match="not fetched within"):
            await web.fetch(url, timeout=0.05)
    assert was_reached(listener)


class Answering(ScriptedModel):
    """Says that it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        super().__init__(self._answer)

    def _answer(self, request: Any) -> Any:
        self.asked.append(request)
        return model_response(tool_call("nh_outcome", kind="pass"))


async def test_names_outside_of_a_list_of_names_are_never_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question to a name server sends the name out, which may be a secret."""
    resolved: list[object] = []

    async def getaddrinfo(host: object, *_: object, **options: object) -> list[Any]:
        resolved.append(host)
        raise OSError("there is no name server")

    monkeypatch.setattr(anyio, "getaddrinfo", getaddrinfo)
    executor = nh.AgentStepExecutor.from_model(model=Answering())
    web = Web(only=["a.example", "*.b.example"])
    for host in (
        "secret.evil.example",
        "a.example.evil.example",
        "xa.example",
        "b.example",
        "A.EXAMPLE.evil",
    ):
        with pytest.raises(ForbiddenAddressError):
            await web.fetch(f"http://{host}/")
        url = f"http://{host}/mcp"
        async with nh.run(executor, egress=nh.egress(allow=["a.example", "*.b.example"])):
            with pytest.raises(EgressDeniedError):
                await Web().fetch(url)
            with pytest.raises(EgressDeniedError):
                await look(nh.ImageUrl(url=url))
            with pytest.raises(EgressDeniedError):
                async with nh.mcp.connect(nh.mcp.http(url, connect_timeout=5)):
                    raise AssertionError("it is connected on entering")
    assert resolved == []
    with pytest.raises(FetchError, match="cannot be resolved"):
        await web.fetch("http://x.b.example/")
    assert resolved == ["x.b.example"]


@nh.natural_function
async def look(image: object) -> None:
    """natural
    Look at <image>.
    """


async def test_media_of_denied_hosts_are_not_given_to_providers() -> None:
    model = Answering()
    executor = nh.AgentStepExecutor.from_model(model=model)
    async with nh.run(executor, egress=nh.egress(allow=["localhost", "files.example"])):
        for url in (
            "https://evil.example/?q=secret",
            "https://files.example.evil.example/x.png",
            "https://files.example@evil.example/x.png",
            "https://10.1.2.3/x.png",
            "/x.png",
        ):
            with pytest.raises(EgressDeniedError):
                await look(nh.ImageUrl(url=url))
        assert model.asked == []
        await look(nh.ImageUrl(url="https://localhost/x.png"))
        assert len(model.asked) == 1
        with nh.scope(egress=nh.egress(deny=["private"])), pytest.raises(EgressDeniedError):
            await look(nh.ImageUrl(url="https://localhost/x.png"))
    assert len(model.asked) == 1


async def test_servers_over_http_are_not_reached_at_denied_hosts(listener: socket.socket) -> None:
    server = nh.mcp.http(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", connect_timeout=5)
    for egress in (nh.egress(deny=["127.0.0.0/8"]), nh.egress(allow=["mcp.example"])):
        with pytest.raises(EgressDeniedError, match=r"127\.0\.0\.1"):
            async with running(egress=egress, servers={"files": server}):
                raise AssertionError("it is connected on entering")
        async with running(egress=egress):
            with pytest.raises(EgressDeniedError, match=r"127\.0\.0\.1"):
                async with nh.mcp.connect(server):
                    raise AssertionError("it is connected on entering")
    assert not was_reached(listener)

    async def enter() -> None:
        async with running(egress=nh.egress(allow=["127.0.0.1"]), servers={"files": server}):
            raise AssertionError("it does not answer")

    async with anyio.create_task_group() as group:
        group.start_soon(enter)
        await anyio.wait_readable(listener)
        group.cancel_scope.cancel()
    assert was_reached(listener)
