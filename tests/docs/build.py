"""What the built site gets besides its pages: `python -m tests.docs.build SITE`.

The pages as Markdown, `llms.txt` with links to them (https://llmstxt.org), and natural blocks that are
highlighted as programs. Fails when a page is missing, an export of a public package in the reference, or
what a link leads to.
"""

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from .site_links import lost_links, with_own_links

PROJECT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((PROJECT / "zensical.toml").read_text(encoding="utf-8"))["project"]
DOCS = PROJECT / SETTINGS["docs_dir"]
PACKAGE = PROJECT / "src" / "nighthawk_async"
SPAN = re.compile(r'<span class="(sd|s2)">(.*?)</span>', re.DOTALL)
BINDING = re.compile(r"(&lt;(:?)[\w.]+&gt;)")
INCLUDED = re.compile(r'^--8<-- "([^"]+)"$', re.MULTILINE)
WORDS_PER_MINUTE = 230
QUOTES = '"""'


def main(site: Path) -> None:
    """Complete a site."""
    write_markdown(site)
    order_search(site)
    (site / "llms.txt").write_text("".join(index_lines()), encoding="utf-8")
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        text = with_own_links(page.relative_to(site).as_posix(), text)
        page.write_text(highlighted(text), encoding="utf-8")
    for _, _, file in navigation():
        if not file.startswith("reference/"):
            page = site / page_of(file)
            text = page.read_text(encoding="utf-8")
            page.write_text(with_minutes(text, minutes_of(DOCS / file)), encoding="utf-8")
    missing = [*missing_exports(site)]
    if missing:
        raise SystemExit(f"not in the reference: {', '.join(missing)}")
    lost = [*lost_links(site)]
    if lost:
        raise SystemExit("links that lead nowhere:\n" + "\n".join(lost))


def write_markdown(site: Path) -> None:
    """Copy the pages as Markdown."""
    for _, _, file in navigation():
        target = site / file
        target.parent.mkdir(parents=True, exist_ok=True)
        text = (DOCS / file).read_text(encoding="utf-8")
        target.write_text(INCLUDED.sub(included_text, text), encoding="utf-8")


def included_text(found: re.Match[str]) -> str:
    """A file of the repository that a page includes, with links to the pages of the site."""
    text = (PROJECT / found[1]).read_text(encoding="utf-8").replace("](docs/", "](")
    return re.sub(r"\[([^]]*)\]\(examples/[^)]*\)", r"\1", text)


def order_search(site: Path) -> None:
    """Order what the search finds as the navigation does: of equal matches the first is shown."""
    path = site / "search.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    files = [file.removesuffix(".md").removesuffix("index").rstrip("/") for _, _, file in navigation()]
    places = {file: place for place, file in enumerate(files)}
    items: list[dict[str, str]] = index["items"]
    items.sort(key=lambda item: places[item["location"].partition("#")[0].rstrip("/")])
    path.write_text(json.dumps(index), encoding="utf-8")


def navigation() -> Iterator[tuple[str, str, str]]:
    """The section, the title and the file of each page."""
    for entry in SETTINGS["nav"]:
        for title, content in entry.items():
            if isinstance(content, str):
                yield "", title, content
                continue
            for page in content:
                for name, file in page.items():
                    yield title, name, file


def index_lines() -> Iterator[str]:
    """The lines of `llms.txt`."""
    yield f"# {SETTINGS['site_name']}\n\n> {SETTINGS['site_description']}\n"
    last = ""
    for section, title, file in navigation():
        if section != last:
            last = section
            yield f"\n## {section}\n\n"
        elif not last:
            yield "\n"
        yield f"- [{title}]({file}): {summary(DOCS / file)}\n"


def summary(page: Path) -> str:
    """The first sentence of a page; of the reference, that of the package."""
    text = page.read_text(encoding="utf-8")
    if package := re.search(r"^::: (nighthawk_async(?:\.\w+)?)$", text, re.MULTILINE):
        source = source_of(package[1])
        text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    paragraphs = [
        each for each in re.split(r"\n\s*\n", text) if not each.startswith(("#", "-->", "<", "--8<"))
    ]
    sentence = " ".join((paragraphs or ["What changed."])[0].split())
    return re.split(r"(?<=\.)\s", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", sentence))[0].rstrip(":")


def page_of(file: str) -> str:
    """The place on the site of a page."""
    name = file.removesuffix(".md").removesuffix("index")
    return f"{name}/index.html" if name else "index.html"


def words_of(page: Path) -> int:
    """The number of words of a page, without the addresses of links; with what it includes."""
    text = INCLUDED.sub(included_text, page.read_text(encoding="utf-8"))
    return len(re.sub(r"\]\([^)]*\)(\{[^}]*\})?", "]", text).split())


def minutes_of(page: Path) -> int:
    """How long it takes to read a page, programs included."""
    return max(1, round(words_of(page) / WORDS_PER_MINUTE))


def with_minutes(page: str, minutes: int) -> str:
    """A page of the site that says below its heading how long it takes.

    Raises:
        SystemExit: It has no heading.
    """
    said = f'<p class="minutes">{minutes} minute{"s" if minutes > 1 else ""} to read</p>'
    before, end, after = page.partition("</h1>")
    if not end:
        raise SystemExit(f"a page has no heading: {page[:200]!r}")
    return f"{before}{end}\n{said}{after}"


def highlighted(page: str) -> str:
    """A page whose natural blocks are marked as such, with their bindings."""
    is_inside = False

    def mark(match: re.Match[str]) -> str:
        nonlocal is_inside
        text = match[2]
        is_begun = text.strip() == f"{QUOTES}natural"
        if not is_inside and not is_begun:
            return match[0]
        is_inside = is_begun or not text.endswith(QUOTES)
        marked = BINDING.sub(lambda each: f"<b{' class=write' if each[2] else ''}>{each[1]}</b>", text)
        return f'<span class="{match[1]} natural">{marked}</span>'

    return SPAN.sub(mark, page)


def missing_exports(site: Path) -> Iterator[str]:
    """The exports of public packages that the reference does not describe."""
    for _, title, file in navigation():
        if not file.startswith("reference/"):
            continue
        html = (site / file.removesuffix(".md") / "index.html").read_text(encoding="utf-8")
        for name in (*exports(title), *importable_names(title)):
            own = f'id="{title}.{name}.{name}"'  # of a function in a module of the same name
            if f'id="{title}.{name}"' not in html and own not in html:
                yield f"{title}.{name}"


def exports(package: str) -> list[str]:
    """The exported names of a package or module, other packages left out."""
    for node in ast.parse(source_of(package).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return [each for each in names if package != "nighthawk_async" or not is_package(each)]
    raise SystemExit(f"{package} has no __all__")


def importable_names(package: str) -> Iterator[str]:
    """The names that a package imports for its users as themselves, and does not list in `__all__`."""
    for node in ast.parse(source_of(package).read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.If) or ast.unparse(node.test) != "TYPE_CHECKING":
            continue
        for statement in node.body:
            if isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    is_room = package == PACKAGE.name and is_package(alias.name)
                    if alias.asname == alias.name and not is_room:
                        yield alias.name


def source_of(package: str) -> Path:
    """The file of a package or module of the library."""
    name = package.partition(".")[2]
    places = (PACKAGE / name / "__init__.py", PACKAGE / f"{name}.py")
    return next(place for place in places if place.exists())


def is_package(name: str) -> bool:
    """Whether a name is one of the packages of the library."""
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
