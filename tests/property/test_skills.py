"""Any text as a `SKILL.md`, any frontmatter, any body, any part of a file that is asked for."""

import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, strategies as st

import nighthawk_async as nh
from nighthawk_async.prompt.tokens import TokenCounter
from nighthawk_async.skills import Skill, SkillFault, SkillsError
from nighthawk_async.skills.scope import page_of

PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")), max_size=60)
TEXTS = PRINTABLE.filter(str.strip)
NAMES = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True)
LINES = st.sampled_from(
    [
        *("---", "--- ", "name: tidy", "name: &a b", "description: d", "metadata:", "  a: *a", "- x", "["),
        *("}", "? y", "allowed-tools: Bash(git:*)", "allowed-tools: (", "...", "%YAML 9", "\t", "\ufeff"),
        *("# c", "''", '"', "<:x>"),
    ]
)
CONTENT = st.one_of(
    st.binary(max_size=200),
    st.lists(st.one_of(LINES, PRINTABLE)).map(lambda lines: "\n".join(lines).encode()),
)


def loaded(name: str, content: bytes) -> Skill:
    """A skill with this content."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, name)
        folder.mkdir()
        (folder / "SKILL.md").write_bytes(content)
        return nh.skills.load(folder)[name]


def loaded_or_refused(name: str, content: bytes) -> tuple[Skill | None, tuple[SkillFault, ...]]:
    """A skill with this content, or its faults."""
    try:
        return loaded(name, content), ()
    except SkillsError as error:
        return None, error.faults


@given(CONTENT)
def test_any_content_is_loaded_or_refused_with_faults(content: bytes) -> None:
    for whole in (content, b"---\nname: tidy\ndescription: d\n" + content + b"\n---\n" + content):
        skill, faults = loaded_or_refused("tidy", whole)
        assert (skill is None) == bool(faults)
        assert all(each.line is None or each.line >= 1 for each in faults)
        assert skill is None or skill.description


@given(
    name=NAMES.filter(lambda name: len(name) <= 64),
    fields=st.fixed_dictionaries(
        {"description": TEXTS},
        optional={
            "license": TEXTS,
            "compatibility": TEXTS,
            "metadata": st.dictionaries(TEXTS.map(str.strip), TEXTS, max_size=4),
        },
    ),
    style=st.sampled_from([None, "'", '"']),
    flow=st.booleans(),
    ends=st.sampled_from(["\n", "\r\n", "\r"]),
    mark=st.sampled_from(["", "\ufeff"]),
)
def test_what_a_yaml_library_writes_is_read(
    name: str, fields: dict[str, Any], style: str | None, flow: bool, ends: str, mark: str
) -> None:
    dumped = yaml.safe_dump(
        {"name": name, **fields},
        default_style=style,
        default_flow_style=flow or None,
        allow_unicode=True,
        sort_keys=False,
        width=10_000,
    )
    dumped = dumped.replace("!!str ", "")
    skill = loaded(name, (mark + f"---\n{dumped}---\nbody\n".replace("\n", ends)).encode())
    assert (skill.name, skill.description, skill.body) == (name, fields["description"].strip(), "body")
    assert skill.license == (fields["license"].strip() if "license" in fields else None)
    assert dict(skill.metadata) == fields.get("metadata", {})


@given(
    text=st.text(st.characters(codec="utf-8"), min_size=1, max_size=400).map(lambda text: text * 5),
    max_tokens=st.integers(1, 300),
)
def test_the_parts_of_a_text_are_the_text(text: str, max_tokens: int) -> None:
    counter = TokenCounter.resolve(encoding_name=None, model_name="")
    parts: list[str] = []
    offset = 0
    while True:
        part: Any = page_of(text, offset=offset, max_tokens=max_tokens, counter=counter)
        if isinstance(part, str):
            parts.append(part)
            break
        assert part["next_offset"] > offset
        assert part["characters"] == len(text)
        parts.append(part["text"])
        offset = part["next_offset"]
    assert "".join(parts) == text
