"""The list of what is public, in docs/stability.md: `python -m tests.packaging.stability` writes it."""

from tests.docs.build import DOCS, exports, importable_names, navigation

PAGE = DOCS / "stability.md"
BEGIN, END = "<!-- public names -->\n", "<!-- end of public names -->"


def public_names() -> str:
    """The names of all packages that the reference describes, those in italics that `__all__` leaves out."""
    lines: list[str] = []
    for _, package, file in navigation():
        if file.startswith("reference/"):
            listed = [f"`{each}`" for each in sorted(exports(package), key=by_word)]
            others = [f"*`{each}`*" for each in sorted(set(importable_names(package)), key=by_word)]
            lines.append(f"- **[{package}]({file})**: {', '.join([*listed, *others])}\n")
    return "".join(lines)


def by_word(name: str) -> tuple[str, str]:
    """Names of one word follow each other, whatever their case."""
    return name.lower(), name


def with_names(text: str) -> str:
    """The page with the list as it is now."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{public_names()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(with_names(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
