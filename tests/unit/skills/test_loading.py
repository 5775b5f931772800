"""Loading skills: the open format, every fault with its line, links, sizes, and files."""

import copy
import os
import pickle
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.skills import SkillFileError, SkillsError

from .corpus import Sample, generated, samples
from .folders import made_skill, skill_text, write_skill

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def faults_of(*folders: Path) -> list[str]:
    """The faults of folders, with paths below the parent of the first one."""
    with pytest.raises(SkillsError) as raised:
        nh.skills.load(*folders)
    parent = f"{folders[0].parent}{os.sep}"
    return [str(each).replace(parent, "") for each in raised.value.faults]


# ---- the format


@pytest.mark.parametrize("sample", list(samples()), ids=lambda sample: sample.title)
def test_the_format_decides(tmp_path: Path, sample: Sample) -> None:
    folder = write_skill(tmp_path, sample.folder, sample.text)
    if sample.is_valid:
        assert list(nh.skills.load(folder)) == [sample.folder]
    else:
        assert faults_of(folder)


@pytest.mark.skipif(find_spec("skills_ref") is None, reason="needs skills-ref")
@pytest.mark.parametrize("sample", list(samples()), ids=lambda sample: sample.title)
def test_the_reference_library_decides_alike(tmp_path: Path, sample: Sample) -> None:
    from skills_ref.validator import validate

    folder = write_skill(tmp_path, sample.folder, sample.text)
    assert (validate(folder) == []) is sample.is_valid


@pytest.mark.skipif(find_spec("skills_ref") is None, reason="needs skills-ref")
def test_the_reference_library_decides_alike_about_generated_skills(tmp_path: Path) -> None:
    from skills_ref.validator import validate

    count = {True: 0, False: 0}
    for number, sample in enumerate(generated(1_000)):
        folder = write_skill(tmp_path / str(number), sample.folder, sample.text)
        is_valid = validate(folder) == []
        count[is_valid] += 1
        if is_valid:
            assert list(nh.skills.load(folder)) == [sample.folder]
        else:
            assert faults_of(folder), sample
    assert min(count.values()) > 100


def test_all_fields_are_read(tmp_path: Path) -> None:
    text = (
        "---\nname: tidy-up\ndescription: >\n  Tidies\n  up.\nlicense: MIT\ncompatibility: Linux\n"
        "allowed-tools: look_up Workspace.read\nmetadata:\n  author: me\n  version: 1.0\n---\n\n"
        "# Steps\n\n1. Go.\n"
    )
    skill = nh.skills.load(write_skill(tmp_path, "tidy-up", text))["tidy-up"]
    assert (skill.name, skill.description, skill.body) == ("tidy-up", "Tidies up.", "# Steps\n\n1. Go.")
    assert (skill.license, skill.compatibility) == ("MIT", "Linux")
    assert skill.metadata == {"author": "me", "version": "1.0"}
    assert [each.text for each in skill.allowed_tools] == ["look_up", "Workspace.read"]
    assert skill.folder == tmp_path / "tidy-up"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: b"\xef\xbb\xbf" + text.encode(), id="BOM"),
        pytest.param(lambda text: text.replace("\n", "\r\n").encode(), id="CRLF"),
        pytest.param(lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(), id="both"),
        pytest.param(lambda text: text.replace("---\n", "--- \t\n").encode(), id="blanks after the marks"),
    ],
)
def test_files_from_other_systems_are_read_alike(tmp_path: Path, change: Callable[[str], bytes]) -> None:
    plain = made_skill(tmp_path / "plain", "tidy", body="Grüße\n\nzwei")
    folder = write_skill(tmp_path / "other", "tidy")
    (folder / "SKILL.md").write_bytes(change(skill_text("tidy", body="Grüße\n\nzwei")))
    skill = nh.skills.load(folder)["tidy"]
    assert (skill.name, skill.description, skill.body) == (plain.name, plain.description, plain.body)


def test_a_body_may_hold_lines_like_those_of_the_frontmatter(tmp_path: Path) -> None:
    assert made_skill(tmp_path, "tidy", body="a\n---\nb").body == "a\n---\nb"


# ---- faults


def test_one_error_lists_every_fault_of_every_skill_with_its_line(tmp_path: Path) -> None:
    write_skill(tmp_path / "s", "fine")
    write_skill(
        tmp_path / "s",
        "bad",
        "---\nname: Bad\ndescription: ''\nlicence: MIT\nmetadata:\n  a: [1]\n"
        "allowed-tools: Read, Foo(x)\n---\n",
    )
    write_skill(tmp_path / "s", "worse", "---\nname: [\n---\n")
    (tmp_path / "s" / "empty").mkdir()
    misspelled = write_skill(tmp_path / "s", "lower")
    (misspelled / "SKILL.md").rename(misspelled / "skill.md")
    faults = faults_of(tmp_path / "s")
    assert [fault.partition(": ")[0] for fault in faults] == [
        *("s/bad/SKILL.md:2", "s/bad/SKILL.md:2", "s/bad/SKILL.md:3", "s/bad/SKILL.md:4"),
        *("s/bad/SKILL.md:5", "s/bad/SKILL.md:7", "s/bad/SKILL.md:7"),
        *("s/empty/SKILL.md", "s/lower/SKILL.md", "s/worse/SKILL.md:3"),
    ]
    text = "\n".join(faults)
    assert "the format has no field 'licence'. Did you mean 'license'?" in text
    assert "'description' is empty" in text
    assert "separated by spaces, not by commas: 'Read,'" in text
    assert "understood are names of tools and functions" in text
    assert "the name of skill.md must be SKILL.md" in text
    assert "not valid YAML" in text


def test_the_error_is_a_configuration_error_that_can_be_sent_to_other_processes(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "bad", "Do it.")
    with pytest.raises(nh.ConfigurationError, match=r"1 fault:\n.*SKILL.md:1: it must begin") as raised:
        nh.skills.load(folder)
    assert isinstance(raised.value, SkillsError)
    for other in (pickle.loads(pickle.dumps(raised.value)), copy.copy(raised.value)):
        assert isinstance(other, SkillsError)
        assert (str(other), other.faults) == (str(raised.value), raised.value.faults)


def test_a_folder_that_is_missing_empty_or_no_folder_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "file").write_text("x")
    assert faults_of(tmp_path / "none", tmp_path / "file", tmp_path / "missing") == [
        "file: cannot be read: Not a directory",
        "missing: cannot be read: No such file or directory",
        "none: there are no skills in it, and no SKILL.md",
    ]
    with pytest.raises(SkillsError, match="name a folder"):
        nh.skills.load()


def test_two_skills_of_one_name_are_a_fault_that_names_both(tmp_path: Path) -> None:
    write_skill(tmp_path / "a", "tidy")
    write_skill(tmp_path / "b", "tidy", body="Otherwise.")
    (fault,) = faults_of(tmp_path / "a", tmp_path / "b")
    assert fault == "b/tidy: a/tidy has a skill 'tidy' as well"


def test_the_same_folder_twice_is_one_skill(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "tidy")
    assert list(nh.skills.load(tmp_path, folder)) == ["tidy"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"---\nname: tidy\n\xff", "is no text in UTF-8", id="no UTF-8"),
        pytest.param(skill_text("tidy", body="\0").encode(), "is no text in UTF-8", id="NUL"),
        pytest.param(skill_text("tidy", body="x" * 256_000).encode(), "the most is 256,000", id="too long"),
        pytest.param(
            b"---\nname: tidy\ndescription: \x07\n---\n", "not valid YAML", id="a control character"
        ),
        pytest.param(
            b'---\nname: tidy\ndescription: "\\e[31m"\n---\n', "control characters", id="an escape sequence"
        ),
        pytest.param(b"---\nname: tidy\ndescription: d\n...\n---x\n---\n", "YAML", id="two documents"),
    ],
)
def test_content_that_is_no_skill_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    folder = write_skill(tmp_path, "tidy")
    (folder / "SKILL.md").write_bytes(content)
    assert problem in "\n".join(faults_of(folder))


@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param(
            "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*{p}, *{p}]\n" for n, p in enumerate(["a"])),
            id="aliases",
        ),
        pytest.param(f"metadata: {'[' * 900}{']' * 900}", id="nested lists"),
        pytest.param(f"metadata: {'{a: ' * 900}{'}' * 900}", id="nested mappings"),
        pytest.param("metadata:\n" + "".join(f"{' ' * n}a:\n" for n in range(1, 400)), id="indentation"),
        pytest.param(f"metadata: {'[' * 60_000}", id="open lists"),
    ],
)
def test_bombs_are_refused_without_effort(tmp_path: Path, bomb: str) -> None:
    folder = write_skill(tmp_path, "tidy", f"---\nname: tidy\ndescription: d\n{bomb}\n---\n")
    assert faults_of(folder)


# ---- folders


def test_hidden_folders_and_files_beside_skills_are_left_out(tmp_path: Path) -> None:
    write_skill(tmp_path, "tidy")
    for name in (".git", "_drafts", "__pycache__", "node_modules"):
        (tmp_path / name).mkdir()
    (tmp_path / "README.md").write_text("x")
    assert list(nh.skills.load(str(tmp_path))) == ["tidy"]


def test_skills_are_found_by_both_names_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("tidy-up", "a2", "ask"):
        write_skill(tmp_path, name)
    skills = nh.skills.load(tmp_path)
    assert list(skills) == ["a2", "ask", "tidy-up"]
    assert skills["tidy_up"] is skills["tidy-up"]
    assert "tidy_up" in skills
    assert list(skills.only("ask", "tidy_up")) == ["ask", "tidy-up"]
    with pytest.raises(KeyError, match="Did you mean 'tidy-up'"):
        skills["tidy-op"]


def test_skills_can_be_pickled(tmp_path: Path) -> None:
    skill = made_skill(tmp_path, "tidy", files={"a.md": "x"}, allowed_tools="Bash(git:*)", metadata="{a: b}")
    assert pickle.loads(pickle.dumps(skill)) == skill
    assert hash(skill) == hash(pickle.loads(pickle.dumps(skill)))


# ---- files


def test_files_are_listed_and_read(tmp_path: Path) -> None:
    skill = made_skill(
        tmp_path,
        "tidy",
        files={"references/b.md": "\ufeffone\r\ntwo", "assets/a.png": PNG, "x.bin": b"\0\1", ".hidden": "no"},
    )
    assert dict(skill.files) == {"assets/a.png": len(PNG), "references/b.md": 11, "x.bin": 2}
    assert skill.read("references/b.md") == "one\ntwo"
    assert skill.read("assets/a.png") == nh.BinaryContent(
        data=PNG, media_type="image/png", identifier="assets/a.png"
    )
    assert skill.read("SKILL.md") == skill.text
    with pytest.raises(SkillFileError, match="neither a text nor an image"):
        skill.read("x.bin")


@pytest.mark.parametrize(
    "file",
    ["../tidy/a.md", "/etc/passwd", "a.md/../a.md", "", ".", "references", "a.md\0", "A.md", ".hidden"],
)
def test_only_listed_files_are_read(tmp_path: Path, file: str) -> None:
    skill = made_skill(tmp_path, "tidy", files={"a.md": "x", "references/b.md": "y", ".hidden": "z"})
    with pytest.raises(SkillFileError, match="has no file"):
        skill.read(file)


def test_links_that_lead_out_are_faults_and_links_inside_are_files(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = write_skill(tmp_path / "s", "tidy", files={"a.md": "x", "sub/c.md": "y"})
    (folder / "b.md").symlink_to("a.md")
    (folder / "other").symlink_to("sub")
    skill = nh.skills.load(folder)["tidy"]
    assert list(skill.files) == ["a.md", "b.md", "sub/c.md"]
    assert skill.read("b.md") == "x"
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    (tmp_path / "s" / "linked").symlink_to(folder)
    assert faults_of(tmp_path / "s") == [
        "s/linked: is a link, which is not followed; load its target itself",
        "s/tidy/out.txt: is a link that leads out of the folder of the skill",
        "s/tidy/up: is a link that leads out of the folder of the skill",
    ]


def test_instructions_that_are_a_link_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.md").write_text(skill_text("tidy"))
    folder = tmp_path / "tidy"
    folder.mkdir()
    (folder / "SKILL.md").symlink_to(tmp_path / "elsewhere.md")
    assert faults_of(folder) == ["tidy/SKILL.md: leads out of the folder of the skill"]


def test_a_file_that_becomes_a_link_later_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    skill = made_skill(tmp_path, "tidy", files={"a.md": "x", "sub/b.md": "y"})
    (skill.folder / "a.md").unlink()
    (skill.folder / "a.md").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(SkillFileError, match="leads out of the folder"):
        skill.read("a.md")
    (skill.folder / "sub" / "b.md").unlink()
    with pytest.raises(SkillFileError, match="cannot be read"):
        skill.read("sub/b.md")


def test_what_is_no_file_is_a_fault(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "tidy")
    os.mkfifo(folder / "pipe")
    (folder / "gone").symlink_to("nothing")
    (folder / "a\nb.md").write_text("x")
    faults = faults_of(folder)
    assert len(faults) == 2
    assert any("pipe: is no file" in fault for fault in faults)
    assert any("a name must be printable text" in fault for fault in faults)


def test_sizes_are_bounded(tmp_path: Path) -> None:
    many = write_skill(tmp_path, "many", files={f"{number}.md": "x" for number in range(1_001)})
    deep = write_skill(tmp_path, "deep", files={"/".join("a" * 30) + "/b.md": "x"})
    assert "has more than 1,000 files and folders" in faults_of(many)[0]
    assert "has folders more than 20 deep" in faults_of(deep)[0]
    skill = made_skill(tmp_path, "large", files={"a.md": b"x" * 5_000_001})
    with pytest.raises(SkillFileError, match="the most is 5,000,000"):
        skill.read("a.md")


# ---- skills of others


@pytest.mark.parametrize(
    ("package", "folder"),
    [
        pytest.param("fastapi", ".agents/skills", id="fastapi"),
        pytest.param("typer", ".agents/skills", id="typer"),
        pytest.param("playwright", "driver/package/lib/tools/skills", id="playwright"),
    ],
)
def test_skills_that_packages_ship_are_loaded(package: str, folder: str) -> None:
    spec = find_spec(package)
    path = Path(spec.origin or "").parent / folder if spec is not None else Path()
    if spec is None or not path.is_dir():
        pytest.skip(f"{package} ships no skills here")
    skills = nh.skills.load(path)
    assert skills
    for skill in skills.values():
        assert skill.body
        for file in skill.files:
            assert skill.read(file)
