"""Texts of `SKILL.md` about which the specification of the format is clear."""

import random
import re
from collections.abc import Iterator
from typing import NamedTuple

from .folders import skill_text


class Sample(NamedTuple):
    """One sample.

    Args:
        title: A title for the test.
        folder: The name of the folder.
        text: The text of the file.
        is_valid: Whether the format allows it.
    """

    title: str
    folder: str
    text: str
    is_valid: bool


_NAMES = {
    "a": True,
    "a" * 64: True,
    "a" * 65: False,
    "pdf-processing": True,
    "a-1-b-2": True,
    "3d-model": True,
    "-pdf": False,
    "pdf-": False,
    "pdf--processing": False,
    "PDF": False,
    "pdf_processing": False,
    "pdf.processing": False,
    "pdf processing": False,
}

_VALID = {
    "all fields": "name: tidy\ndescription: d\nlicense: MIT\ncompatibility: Linux\nallowed-tools: look_up\n"
    'metadata:\n  author: someone\n  version: "1.0"',
    "a folded description": "name: tidy\ndescription: >\n  one\n  two",
    "a literal description": "name: tidy\ndescription: |\n  one\n  two",
    "quotes": "name: 'tidy'\ndescription: \"d: #1\"",
    "a description of 1,024 characters": f"name: tidy\ndescription: {'é' * 1024}",
    "a compatibility of 500 characters": f"name: tidy\ndescription: d\ncompatibility: {'c' * 500}",
    "comments": "# a comment\nname: tidy  # another\ndescription: d",
    "fields in another order": "description: d\nname: tidy",
    "a version that looks like a number": "name: tidy\ndescription: d\nmetadata:\n  version: 1.0",
}

_INVALID = {
    "no name": "description: d",
    "no description": "name: tidy",
    "an empty name": "name:\ndescription: d",
    "an empty description": "name: tidy\ndescription:",
    "a blank description": "name: tidy\ndescription: '  '",
    "another name than that of the folder": "name: other\ndescription: d",
    "a description of 1,025 characters": f"name: tidy\ndescription: {'d' * 1025}",
    "a compatibility of 501 characters": f"name: tidy\ndescription: d\ncompatibility: {'c' * 501}",
    "a name that is a list": "name: [tidy]\ndescription: d",
    "a description that is a mapping": "name: tidy\ndescription:\n  a: b",
    "a field that the format does not have": "name: tidy\ndescription: d\nversion: 1",
    "a field that is given twice": "name: tidy\ndescription: d\ndescription: e",
    "a list": "- name: tidy\n- description: d",
    "one text": "tidy",
    "nothing": "",
    "broken quotes": "name: tidy\ndescription: 'd",
    "broken indentation": "name: tidy\n   description: d\n b",
    "an anchor": "name: &n tidy\ndescription: d",
    "a tag": "name: !!str tidy\ndescription: d",
}


def samples() -> Iterator[Sample]:
    """Yield all samples."""
    for name, is_valid in _NAMES.items():
        yield Sample(f"the name {name[:20]} of {len(name)}", name, skill_text(name), is_valid)
    for kind, is_valid in ((_VALID, True), (_INVALID, False)):
        for title, fields in kind.items():
            yield Sample(title, "tidy", f"---\n{fields}\n---\n\nDo it.\n", is_valid)
    yield Sample("no frontmatter", "tidy", "Do it.\n", False)
    yield Sample("frontmatter without an end", "tidy", "---\nname: tidy\ndescription: d\n", False)
    yield Sample("no body", "tidy", "---\nname: tidy\ndescription: d\n---\n", True)


class Generated(NamedTuple):
    """A generated sample, whose validity the reference library knows."""

    folder: str
    text: str


def generated(count: int, seed: int = 1) -> list[Generated]:
    """Generate samples near the limits of the format, from ASCII, of which the specification is clear."""
    chance = random.Random(seed)
    return [_generate(chance) for _ in range(count)]


def _generate(chance: random.Random) -> Generated:
    name = _name(chance)
    fields = [f"name: {name}", f"description: {'d' * chance.choice((1, 20, 1023, 1024, 1025))}"]
    if chance.random() < 0.4:
        fields.append(f"compatibility: {'c' * chance.choice((1, 499, 500, 501))}")
    if chance.random() < 0.4:
        fields.append("metadata:\n" + "\n".join(f"  key-{n}: value {n}" for n in range(chance.randint(1, 3))))
    if chance.random() < 0.3:
        fields.append(
            chance.choice(("license: MIT", "allowed-tools: look_up Read", "version: 1", "hooks: none"))
        )
    if chance.random() < 0.15:
        fields.pop(chance.randrange(2))
    if chance.random() < 0.1:
        fields.append(chance.choice(fields))
    chance.shuffle(fields)
    folder = name if chance.random() < 0.85 else f"{name}x"
    return Generated(folder, "---\n" + "\n".join(fields) + "\n---\n\nDo it.\n")


def _name(chance: random.Random) -> str:
    letters = "".join(chance.choices("abz09-", k=chance.choice((1, 2, 5, 12, 63, 64, 65))))
    if chance.random() < 0.6:
        letters = re.sub("-+", "-", letters).strip("-")
    if chance.random() < 0.15:
        letters += chance.choice("AZ_.")
    return letters if re.search("[a-zA-Z]", letters) else f"a{letters}"
