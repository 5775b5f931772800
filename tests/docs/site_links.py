"""The links of a built site, as readers follow them.

The builder checks those of the pages that it reads. It sees neither those of a file that a page includes, nor
links that are written in HTML.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

CHANGELOG = "changelog/index.html"


def with_own_links(file: str, page: str) -> str:
    """A page of the site; the changelog, which stands in another folder, leads to the site's pages too."""
    if file != CHANGELOG:
        return page
    return re.sub(r'<a href="\.\./examples/">(.*?)</a>', r"\1", page.replace('href="../docs/', 'href="../'))


def lost_links(site: Path) -> Iterator[str]:
    """The links that lead to no page of the site, or to no place on it."""
    for page in sorted(site.rglob("*.html")):
        for link in re.findall(r'<a\b[^>]*\shref="([^"]*)"', page.read_text(encoding="utf-8")):
            if re.match(r"\w+:|/", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / unquote(path)).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            has_place = not anchor or target.suffix != ".html" or anchor.startswith("__")
            if not target.exists() or not (has_place or unquote(anchor) in _places(target)):
                yield f"{page.relative_to(site).as_posix()}: {link}"


@cache
def _places(page: Path) -> frozenset[str]:
    return frozenset(re.findall(r'\s(?:id|name)="([^"]+)"', page.read_text(encoding="utf-8")))
