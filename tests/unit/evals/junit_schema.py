"""The two common schemas of JUnit XML, Ant's and that of Jenkins, as far as both allow something."""

from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element

__all__ = ["violations"]


@dataclass(frozen=True, slots=True)
class _Rule:
    required: frozenset[str]
    optional: frozenset[str] = frozenset()
    children: tuple[str, ...] = ()
    """The children in the order of Ant's schema, where their order is fixed."""


_RULES: Mapping[str, _Rule] = {
    "testsuites": _Rule(frozenset(), children=("testsuite",)),
    "testsuite": _Rule(
        frozenset({"name", "package", "id", "timestamp", "hostname", "tests", "failures", "errors", "time"}),
        frozenset({"skipped"}),
        ("properties", "testcase", "system-out", "system-err"),
    ),
    "properties": _Rule(frozenset(), children=("property",)),
    "property": _Rule(frozenset({"name", "value"})),
    "testcase": _Rule(frozenset({"name", "classname", "time"}), children=("skipped", "error", "failure")),
    "failure": _Rule(frozenset({"type"}), frozenset({"message"})),
    "error": _Rule(frozenset({"type"}), frozenset({"message"})),
    "skipped": _Rule(frozenset(), frozenset({"message"})),
    "system-out": _Rule(frozenset()),
    "system-err": _Rule(frozenset()),
}


def violations(element: Element) -> list[str]:
    """What an element and those below it violate."""
    rule = _RULES.get(element.tag)
    if rule is None:
        return [f"unknown element {element.tag}"]
    found: list[str] = []
    names = set(element.keys())
    found += [f"{element.tag} lacks {name}" for name in sorted(rule.required - names)]
    found += [f"{element.tag} has {name}" for name in sorted(names - rule.required - rule.optional)]
    tags = [child.tag for child in element]
    found += [f"{tag} in {element.tag}" for tag in tags if tag not in rule.children]
    positions = [rule.children.index(tag) for tag in tags if tag in rule.children]
    if positions != sorted(positions):
        found.append(f"the order in {element.tag}")
    if element.tag == "testcase" and len(tags) > 1:
        found.append("more than one end of a testcase")
    for name in ("tests", "failures", "errors", "skipped", "id"):
        if name in names and not element.get(name, "").isdecimal():
            found.append(f"{name} of {element.tag}")
    return found + [each for child in element for each in violations(child)]
