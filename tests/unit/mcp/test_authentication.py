"""`nh.mcp.http(…, auth=…)`: the authentication of the program, whose errors carry no token."""

import logging
import traceback
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.auth import OAuthFlowError

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel
from tests.unit.mcp.serving_support import CLIENT_WARNINGS, count_run, serving, stars

pytestmark = [pytest.mark.anyio, CLIENT_WARNINGS]
TOKEN = "larkspur"  # nothing about it looks like a secret


class Bearer(httpx2.Auth):
    """Adds a token, which another function gets."""

    def __init__(self, fetch: Callable[[], str]) -> None:
        self.fetch = fetch

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        request.headers["authorization"] = f"Bearer {self.fetch()}"
        yield request


class AsyncBearer(Bearer):
    """The same as an asynchronous flow, which asks once more after a refusal."""

    requires_request_body = True

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        response = yield request
        if response.status_code == 401:
            request.headers["authorization"] = f"Bearer {self.fetch()}"
            yield request


def function(fetch: Callable[[], str]) -> Callable[[httpx2.Request], httpx2.Request]:
    def add(request: httpx2.Request) -> httpx2.Request:
        request.headers["authorization"] = f"Bearer {fetch()}"
        return request

    return add


KINDS = pytest.mark.parametrize("make", [Bearer, AsyncBearer, function])


@KINDS
async def test_a_server_is_used_with_an_authentication(make: Callable[[Callable[[], str]], Any]) -> None:
    app = nh.mcp.serve([stars], run=count_run, token=TOKEN)
    async with (
        serving(app) as url,
        nh.run(ScriptedModel([])),
        nh.mcp.connect(nh.mcp.http(url, auth=make(lambda: TOKEN)), name="shop") as shop,
    ):
        assert await shop.stars(review="***") == 3


async def call_often(server: nh.mcp.Server) -> None:
    async with nh.mcp.connect(server, name="shop") as shop:
        for _ in range(5):
            await shop.stars(review="***")


def contents_of(folder: Path) -> list[str]:
    return [path.read_bytes().decode("latin-1") for path in folder.iterdir()]


@KINDS
@pytest.mark.parametrize("fails_later", [False, True])
async def test_the_error_of_an_authentication_carries_its_token_nowhere(
    make: Callable[[Callable[[], str]], Any],
    fails_later: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    calls = 0

    def fetch() -> str:
        nonlocal calls
        calls += 1
        if fails_later and calls < 4:
            return TOKEN
        error = RuntimeError(f"no expiry in {TOKEN}")
        error.add_note(TOKEN)
        raise error

    app, tree = nh.mcp.serve([stars], run=count_run, token=TOKEN), nh.observe.TaskTree()
    with nh.journal.open(f"sqlite:///{tmp_path / 'runs.db'}") as store, tree.recording():
        async with serving(app) as url, nh.run(ScriptedModel([]), journal=store, run_id="one"):
            with pytest.raises(nh.errors.NighthawkError) as raised:
                await call_often(nh.mcp.http(url, auth=make(fetch)))
        kept = store.tree("one").snapshot()
    shown = [str(nh.observe.view_as_json(each)) for each in (tree.snapshot(), kept)]
    shown += [caplog.text, *traceback.format_exception(raised.value)]
    shown += contents_of(tmp_path)
    assert [each for each in shown if TOKEN in each and "test_authentication.py" not in each] == []
    if not fails_later:
        assert "RuntimeError, at test_authentication.py:" in str(raised.value)


async def test_an_error_of_the_login_of_the_package_stays() -> None:
    def fetch() -> str:
        raise OAuthFlowError("the login was refused")

    app = nh.mcp.serve([stars], run=count_run, token=TOKEN)
    async with serving(app) as url, nh.run(ScriptedModel([])):
        with pytest.raises(nh.mcp.ServerUnavailableError, match="the login was refused"):
            async with nh.mcp.connect(nh.mcp.http(url, auth=Bearer(fetch)), name="shop"):
                pytest.fail("there is no token")
