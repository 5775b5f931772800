"""Folders of skills that tests write."""

from pathlib import Path

import nighthawk_async as nh


def skill_text(name: str, description: str = "Does things.", body: str = "Do it.", **fields: str) -> str:
    """The text of a `SKILL.md`; `allowed_tools=` is the field `allowed-tools`."""
    lines = [f"{key.replace('_', '-')}: {value}" for key, value in fields.items()]
    return "\n".join(["---", f"name: {name}", f"description: {description}", *lines, "---", "", body, ""])


def write_skill(
    folder: Path,
    name: str,
    text: str | None = None,
    files: dict[str, str | bytes] | None = None,
    **fields: str,
) -> Path:
    """Write a skill below a folder, and return its folder."""
    skill = folder / name
    skill.mkdir(parents=True, exist_ok=True)
    (skill / "SKILL.md").write_text(skill_text(name, **fields) if text is None else text, encoding="utf-8")
    for path, content in (files or {}).items():
        file = skill / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return skill


def made_skill(
    folder: Path, name: str, files: dict[str, str | bytes] | None = None, **fields: str
) -> nh.skills.Skill:
    """Write a skill, and load it."""
    return nh.skills.load(write_skill(folder, name, files=files, **fields))[name]
