"""The metadata of a distribution, as its build makes them, and the files that repeat them."""

import re
import tomllib
from email import message_from_string
from email.message import Message
from functools import cache
from pathlib import Path

import pytest
import yaml
from hatchling.metadata.core import ProjectMetadata
from hatchling.metadata.spec import construct_metadata_file_2_4
from hatchling.plugin.manager import PluginManager
from markdown_it import MarkdownIt

from . import stability

PROJECT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
ADDRESS = SETTINGS["project"]["urls"]["Repository"]
WORKFLOWS = sorted((PROJECT / ".github" / "workflows").glob("*.yml"))


@cache
def metadata() -> Message:
    """What a wheel says of itself."""
    project = ProjectMetadata(str(PROJECT), PluginManager())
    return message_from_string(construct_metadata_file_2_4(project))


def links(text: str) -> list[str]:
    """The links and pictures of a text in Markdown."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    children = [child for token in tokens for child in token.children or ()]
    found = [child.attrGet("href") or child.attrGet("src") for child in children]
    return [str(each) for each in found if each]


def test_no_link_of_the_index_page_is_relative_or_dead() -> None:
    text = str(metadata().get_payload())
    found, own = links(text), f"{ADDRESS}/(blob|raw)/v{SETTINGS['project']['version']}/([^#]+)"
    assert len(found) > 50
    for each in found:
        assert each.startswith("https://"), each
        inside = re.match(own, each)
        assert inside is None or (PROJECT / inside[2]).exists(), each
        assert inside is not None or not each.startswith(f"{ADDRESS}/blob"), each
    assert "<!--" not in text


def test_the_addresses_are_those_of_one_repository() -> None:
    urls = SETTINGS["project"]["urls"]
    assert {"Homepage", "Documentation", "Repository", "Issues", "Changelog"} <= urls.keys()
    assert [each for each in urls.values() if not each.startswith(ADDRESS)] == []
    citation = yaml.safe_load((PROJECT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["repository-code"] == ADDRESS
    assert str(citation["version"]) == SETTINGS["project"]["version"] == metadata()["Version"]
    assert citation["license"] == SETTINGS["project"]["license"]


def test_classifiers_name_what_is_tested() -> None:
    """Those Pythons and systems whose tests may not fail in the workflow."""
    jobs = yaml.safe_load((PROJECT / ".github/workflows/checks.yml").read_text(encoding="utf-8"))["jobs"]
    pythons = jobs["tests"]["strategy"]["matrix"]["python"]
    may_fail = re.findall(r"matrix\.python == '([\d.]+)'", jobs["tests"]["continue-on-error"])
    classifiers = metadata().get_all("Classifier") or []
    named = [each.rpartition(" ")[2] for each in classifiers if re.search(r":: 3\.\d+$", each)]
    assert named == [each for each in pythons if each not in may_fail]
    systems = [each for each in classifiers if each.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
    assert "matrix.system != 'ubuntu-latest'" in jobs["tests"]["continue-on-error"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_make_and_nox_and_gives_few_rights(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    targets = set(re.findall(r"^([\w-]+):", (PROJECT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert {"permissions", "timeout-minutes"} <= job.keys()
        targets_of_job = job.get("strategy", {}).get("matrix", {}).get("target", [])
        assert set(targets_of_job) <= targets
        for step in job["steps"]:
            command = step.get("run", "make help")
            known = re.match(r"make (\S+)$|python -m nox -s \w+$|python -m pip install \"nox", command)
            assert known or command.startswith("mkdir upload && mv dist/"), command
            assert not known or not known[1] or known[1] in {*targets, "${TARGET}"}, command
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step.get("uses", f"a/a@{'0' * 40}"))


def test_the_hook_for_commits_needs_no_newer_pre_commit_than_it_says() -> None:
    (hook,) = yaml.safe_load((PROJECT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["minimum_pre_commit_version"] == "3.2.0"  # the first that knows `stages` by these names
    assert hook["stages"] == ["pre-commit", "pre-push", "manual"]
    assert hook["entry"].partition(" ")[0] in SETTINGS["project"]["scripts"]


def test_the_archive_has_the_files_that_tests_read() -> None:
    named = SETTINGS["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for each in ("/.github", "/CITATION.cff", "/.pre-commit-hooks.yaml", "/tests", "/*.md"):
        assert each in named
    assert [each for each in named if "*" not in each and not (PROJECT / each.lstrip("/")).exists()] == []


def test_the_list_of_public_names_is_up_to_date() -> None:
    """`python -m tests.packaging.stability` writes it."""
    text = stability.PAGE.read_text(encoding="utf-8")
    assert stability.with_names(text) == text


def test_stability_names_the_pythons_and_the_licences_as_they_are() -> None:
    text = stability.PAGE.read_text(encoding="utf-8")
    classifiers = [each.rpartition(" ")[2] for each in metadata().get_all("Classifier") or []]
    for python in (each for each in classifiers if each.startswith("3.")):
        assert python in text.partition("## Pythons and systems")[2].partition("tested in part")[0]
    assert all(f"`{name}`" in text for name in ("psycopg", "local", "tokenizers", "ray"))
