"""Foreign pages, and patterns and patches of models: a result, or an error of the library."""

import contextlib
import gzip
import tempfile
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings, strategies as st

from nighthawk_async.library import FetchError, LibraryError, Workspace, web as web_module

DIGITS = "9" * 5_000
_pieces = st.sampled_from(
    [
        "<p>",
        "</p>",
        "<a href='//[x'>",
        "<base href='http://[::'>",
        "&#",
        DIGITS,
        "&#x",
        "0" * 5000 + "65",
        ";",
        "<é>",
        "<!--",
        "-->",
        "<h1>",
        "<h²>",
        "&amp",
        "<script>",
        "</script ",
        "\x00",
        "\ud7ff",
        "<br/>",
        "<a b='",
        ">",
    ]
)
_bodies = st.one_of(
    st.lists(_pieces, max_size=8).map(lambda parts: "".join(parts).encode()),
    st.binary(max_size=60),
    st.binary(max_size=60).map(gzip.compress),
    st.binary(max_size=60).map(lambda content: gzip.compress(content)[:-5]),
    st.binary(max_size=60).map(zlib.compress),
)
_charsets = st.sampled_from(
    [
        "utf-8",
        "idna",
        "punycode",
        "unicode_escape",
        "undefined",
        "hex",
        "rot13",
        "utf-7",
        "x\x00y",
        DIGITS,
        "a.b",
        "",
        "utf-16",
        "é",
        "mbcs",
        "'",
        '"utf-8"',
        "../x",
        "charmap",
        "__init__",
        "zlib_codec",
        "utf_8_sig",
    ]
)
_types = st.one_of(
    st.sampled_from(
        ["text/html", "text/plain", "", "html", "a/b/c", ";", "text/html; charset", "text/html;;="]
    ),
    _charsets.map(lambda name: f"text/html; charset={name}"),
    _charsets.map(lambda name: f"text/html; charset*=utf-8''{name}"),
    _charsets.map(lambda name: f"text/html; charset*{DIGITS}*={name}"),
    st.text(max_size=20),
)
_encodings = st.sampled_from([None, "gzip", "deflate", "identity", "br", "GZIP ", "gzip, gzip", ""])
_targets = st.one_of(
    st.sampled_from(
        [
            "http://xn--/",
            "http://[",
            "http://[::1",
            "//[x]/",
            "http://a:99999999/",
            f"http://a:{DIGITS}/",
            "http://",
            "http://xn--a-ecp.ru/",
            "http://\u3002/",
            "//" + "a" * 300,
            "http://a..b/",
            "javascript:1",
            "http://%00/",
            "http://a b/",
            "http://xn--zzzzzz--/",
            "\x00",
            "http://[fe80::1%25eth0]/",
            "http://\uff41/",
            "http://:80/",
            "",
            "http://user:p@a/",
            "http://127.0.0.1:0/",
            "http://" + "a." * 200,
            "http://\ud800/",
            "?" + "a" * 70000,
        ]
    ),
    st.text(max_size=20),
    st.text(alphabet="htp:/[]@%.:xn-0aé#?\\", max_size=25).map(lambda text: f"http://{text}"),
)


@given(_bodies, _types, _encodings)
@settings(deadline=None)
def test_a_page_is_a_text_or_a_fetch_error(body: bytes, content_type: str, encoding: str | None) -> None:
    headers = [("content-type", content_type.encode("utf-8", "replace"))]
    headers += [] if encoding is None else [("content-encoding", encoding.encode())]
    response = httpx.Response(200, headers=headers)

    async def page() -> str:
        content = await web_module._content(URL, response, 10_000)
        charset = web_module._CHARSET.search(response.headers["content-type"])
        media_type = web_module._media_type(response.headers["content-type"])
        return web_module._text(content, charset and charset[1].lower(), media_type, str(URL))

    response.stream = _Stream(body)
    with contextlib.suppress(FetchError):
        assert isinstance(run(page()), str)


URL = httpx.URL("http://127.0.0.1/a/")


class _Stream(httpx.AsyncByteStream):
    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body[:10]
        yield self._body[10:]


def error_of(call: Callable[[], object], kind: type[Exception]) -> str | None:
    """The text of the error that a call raises, of one kind only."""
    try:
        call()
    except kind as error:
        return str(error)
    return None


def run(coroutine: object) -> object:
    """Run what never waits."""
    try:
        coroutine.send(None)  # type: ignore[attr-defined]
    except StopIteration as stopped:
        return stopped.value
    raise AssertionError("it waits")


@given(_targets)
@settings(deadline=None)
def test_a_url_is_one_or_a_fetch_error(target: str) -> None:
    for base in (None, URL):
        said = error_of(lambda base=base: web_module._parse(target, base), FetchError)
        assert said is None or len(said) < 1_000


@given(
    st.one_of(
        st.sampled_from(
            [
                "(" * 3000 + ")" * 3000,
                "(?:" * 20000,
                f"a{{{DIGITS}}}",
                "a{99999999999999999999}",
                "[[a]--[b]]",
                r"\p{" + DIGITS + "}",
                r"\N{x}",
                "[a&&b]",
                "[[:alpha:]",
                "(?P<a>b)(?P<a>c)",
                r"(?<=a*)b",
                "(?R)",
                "(?1)",
                "[" * 2000,
                "a**",
                "(?i:" * 500 + ")" * 500,
                r"\x",
                r"\L<words>",
                "(?(1)a|b)",
                "*",
                "\ud800",
                r"\u12",
            ]
        ),
        st.text(alphabet="ab()[]{}*+?|^$.\\dwpPLN<>=!:-&~0123456789,'\"#", max_size=25),
    ),
    st.booleans(),
)
@settings(deadline=None)
def test_a_search_finds_or_is_an_error_of_the_library(pattern: str, ignores_case: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "file").write_text("aab 12\n")
        workspace = Workspace(folder)
        for said in (
            error_of(lambda: workspace.search(pattern, ignore_case=ignores_case), LibraryError),
            error_of(lambda: workspace.find(pattern), LibraryError),
        ):
            assert said is None or len(said) < 1_000


_lines = st.sampled_from(
    [
        "--- a/f\n",
        "+++ b/f\n",
        "@@ -1 +1 @@\n",
        f"@@ -{DIGITS} +1 @@\n",
        f"@@ -1,{DIGITS} +1,1 @@\n",
        "-a\n",
        "+b\n",
        " a\n",
        "@@ -٣ +1 @@\n",
        "diff --git a/f b/f\n",
        "rename from f\n",
        "rename to g\n",
        "new file mode 100644\n",
        "\\ No\n",
        "*** Begin Patch\n",
        "*** Update File: f\n",
        "*** Move to: g\n",
        "@@\n",
        "*** End Patch\n",
        "*** Add File: g\n",
        'diff --git "a/\ud800" "b/\ud800"\n',
        '--- "a/\ud800"\n',
        "--- /dev/null\n",
        "+++ \x00\n",
        "copy from f\n",
        "\r\n",
        "deleted file mode 100644\n",
        "@@ -0,0 +1 @@\n",
        "*** End of File\n",
        "+\ud800\n",
        "--- \n",
        "+++ ../x\n",
    ]
)


@given(st.one_of(st.lists(_lines, max_size=9).map("".join), st.text(max_size=40)))
@settings(deadline=None, max_examples=300)
def test_a_patch_is_applied_or_an_error_of_the_library(patch: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "f").write_text("a\n")
        said = error_of(lambda: Workspace(folder, writable=True).patch(patch), LibraryError)
        if said is not None:
            assert Path(folder, "f").read_text() == "a\n"
            assert [path.name for path in Path(folder).iterdir()] == ["f"]


@pytest.mark.parametrize("digits", ["9" * 13, "9" * 5_000])
def test_a_hunk_with_a_number_of_many_digits_is_named(tmp_path: Path, digits: str) -> None:
    (tmp_path / "f").write_text("a\n")
    patch = f"--- a/f\n+++ b/f\n@@ -{digits} +1 @@\n-a\n+b\n"
    with pytest.raises(LibraryError, match=r"f: hunk 1 .*: no file has so many lines"):
        Workspace(tmp_path, writable=True).patch(patch)
