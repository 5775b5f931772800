"""`improve`: other texts of a block, judged on some cases and reported on others; and the diffs of files."""

import ast
import importlib.util
import inspect
import linecache
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, strategies as st

import nighthawk_async as nh
from nighthawk_async.errors import ModelConnectionError, NighthawkError
from nighthawk_async.evals import (
    Case,
    CaseError,
    EvaluationError,
    Improvement,
    ReportError,
    evaluate,
    improve,
)
from nighthawk_async.evals.case_sets import split_cases
from nighthawk_async.evals.wordings import find_block
from nighthawk_async.natural.blocks import natural_literal
from nighthawk_async.natural.program import program_body
from nighthawk_async.testing import CallbackExecutor, StepCall, pass_response, return_response
from tests.unit.evals.evals_support import WORDS

GOOD = "Return the number of stars that <review> gives. Careful."
SOURCE = '''import nighthawk_async as nh


@nh.natural_function
async def stars(review: str) -> int:
    """natural
    Return how many stars <review> gives.
    """
    return 0
'''


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[..., ModuleType]]:
    """Imports a module with a text."""
    loaded: list[str] = []
    subprocess.run(["git", "-c", "core.autocrlf=false", "init", "-q", str(tmp_path)], check=True)

    def load_text(text: str, *, data: bytes | None = None) -> ModuleType:
        name = f"improved_{uuid.uuid4().hex}"
        path = tmp_path / f"{name}.py"
        path.write_bytes(text.encode() if data is None else data)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        loaded.append(name)
        spec.loader.exec_module(module)
        return module

    yield load_text
    for name in loaded:
        del sys.modules[name]


def samples(count: int = 4) -> list[Case]:
    return [
        Case(f"{word} {n}", inputs={"review": f"{word} stars, {n}."}, expected=stars)
        for n in range(count)
        for word, stars in WORDS.items()
    ]


class Answers:
    """Answers steps: careful blocks are right, others count to two; proposals are the given ones."""

    def __init__(self, *proposals: str) -> None:
        self.proposals = list(proposals)
        self.asked: list[StepCall] = []
        self.programs: list[str] = []
        self.executor = CallbackExecutor(self._answer)  # type: ignore[arg-type]

    def _answer(self, call: StepCall) -> object:
        self.programs.append(call.natural_program)
        if "better instruction" in call.natural_program:
            self.asked.append(call)
            return pass_response(wording=self.proposals[(len(self.asked) - 1) % len(self.proposals)])
        stars = WORDS[str(call.step_locals["review"]).split()[0]]
        return return_response(str(stars if "Careful" in call.natural_program else min(stars, 2)))


def text_of(path: Path) -> str:
    return path.read_text()


def applied(improvement: Improvement, path: Path) -> str:
    """Apply the diff with git in the folder of a file, and return the new text of the file."""
    improvement.save_diff(path.parent / "change.patch")
    subprocess.run(["git", "apply", "change.patch"], cwd=path.parent, check=True)
    return path.read_bytes().decode()


@pytest.mark.anyio
async def test_a_better_wording_is_found_and_reported_on_cases_that_took_no_part(
    load: Callable[..., ModuleType],
) -> None:
    module = load(SOURCE)
    path = Path(str(module.__file__))
    answers = Answers(GOOD, "Guess <review>.", "Guess <review>, slowly.")
    improvement = await improve(module.stars, samples(), model=answers.executor, seed=1)
    assert (improvement.verdict, improvement.wording) == ("improved", GOOD)
    assert improvement.comparison is not None
    assert len(improvement.comparison.cases) == 10
    assert text_of(path) == SOURCE  # nothing was changed
    assert list(improvement.texts) == [
        "original",
        "original with examples",
        "wording 1",
        "wording 1 with examples",
        "wording 2",
        "wording 2 with examples",
        "wording 3",
        "wording 3 with examples",
    ]
    assert applied(improvement, path) == SOURCE.replace("Return how many stars <review> gives.", GOOD)
    assert str(improvement).startswith(f"{module.__name__}:stars, block 1: improved: pass rate +")


@pytest.mark.anyio
async def test_the_cases_that_are_held_out_are_hidden_from_the_model_and_from_the_choice(
    load: Callable[..., ModuleType],
) -> None:
    module, answers = load(SOURCE), Answers(GOOD)
    improvement = await improve(module.stars, samples(), model=answers.executor, seed=1)
    assert improvement.training is not None
    assert improvement.held_out is not None
    held_out = {case.name for case in improvement.held_out.reports["original"].cases}
    training = {case.name for case in improvement.training.reports["original"].cases}
    assert len(held_out) == 10
    assert len(training) == 7  # three are examples
    assert not held_out & training
    shown = str([dict(call.step_locals) for call in answers.asked])
    for case in samples():
        if case.name in held_out:
            assert str(case.build_inputs()["review"]) not in shown
            assert not any(str(case.build_inputs()["review"]) in text for text in improvement.texts.values())


@pytest.mark.anyio
async def test_the_split_is_stratified_and_seeded(load: Callable[..., ModuleType]) -> None:
    module, answers = load(SOURCE), Answers(GOOD)
    parts: list[set[str]] = []
    for seed in (1, 1, 2):
        improvement = await improve(module.stars, samples(), model=answers.executor, seed=seed)
        assert improvement.held_out is not None
        cases = improvement.held_out.reports["original"].cases
        assert sorted(case.expected for case in cases) == sorted(list("12345") * 2)
        parts.append({case.name for case in cases})
    assert parts[0] == parts[1] != parts[2]


@pytest.mark.parametrize("seed", range(5))
def test_variants_and_equal_inputs_are_in_the_part_of_their_case(seed: int) -> None:
    given = samples()
    given += [
        replace(case, name=f"{case.name} ~{n}", inputs={"review": f"{n}"}, tags=("variant",))
        for n, case in enumerate(given[:8])
    ]
    given += [replace(case, name=f"again {case.name}") for case in given[:5]]
    parts = split_cases(given, held_out=0.5, seed=seed, confidence=0.95)
    assert sum(map(len, parts)) == len(given)
    training, kept = (
        {case.name.partition(" ~")[0].removeprefix("again ") for case in part} for part in parts
    )
    assert not training & kept


@pytest.mark.anyio
async def test_a_text_that_is_no_better_is_no_improvement(load: Callable[..., ModuleType]) -> None:
    module, answers = load(SOURCE), Answers("Guess <review>.")
    improvement = await improve(module.stars, samples(), model=answers.executor)
    assert (improvement.verdict, improvement.comparison, improvement.diff) == ("inconclusive", None, "")
    assert improvement.reason == "No other text was better on the training cases."
    with pytest.raises(EvaluationError, match="There is no change to save"):
        improvement.save_diff("never.patch")


@pytest.mark.anyio
async def test_a_gain_on_the_training_cases_alone_is_inconclusive(load: Callable[..., ModuleType]) -> None:
    module, answers = load(SOURCE), Answers("Lucky <review>.")
    lucky: set[str] = set()

    def answer(call: StepCall) -> object:
        if "Lucky" in call.natural_program and "lucky" in str(call.step_locals["review"]):
            return return_response("5")
        return answers._answer(call)

    cases = [Case(f"{n}", inputs={"review": f"Five stars, {n}."}, expected=5) for n in range(20)]
    first = await improve(module.stars, cases, model=answers.executor)
    assert first.training is not None
    lucky = {case.name for case in first.training.reports["original"].cases}
    cases = [
        Case(
            n.name,
            inputs={"review": f"Five stars, {n.name}{' lucky' if n.name in lucky else ''}."},
            expected=5,
        )
        for n in cases
    ]
    improvement = await improve(module.stars, cases, model=CallbackExecutor(answer))  # type: ignore[arg-type]
    assert improvement.verdict == "inconclusive"
    assert improvement.diff
    assert improvement.comparison is not None
    assert improvement.comparison.difference == 0


@pytest.mark.anyio
async def test_a_block_that_passes_everything_is_left_alone(load: Callable[..., ModuleType]) -> None:
    module, answers = load(SOURCE.replace("gives.", "gives. Careful.")), Answers(GOOD)
    improvement = await improve(module.stars, samples(), model=answers.executor)
    assert improvement.reason == "All training cases pass: there is nothing to learn from."
    assert not answers.asked


@pytest.mark.anyio
async def test_proposals_that_cannot_be_used_are_rejected_with_reasons(
    load: Callable[..., ModuleType],
) -> None:
    module = load(SOURCE)
    answers = Answers("Return it.", "Return <review> and <:total>.", " ", "Return <:1> of <review>.")
    improvement = await improve(
        module.stars, samples(), model=answers.executor, proposals=4, examples=0, max_concurrent=1
    )
    assert [text.split(": ", 1)[1] for text in improvement.rejected] == [
        "it reads other names: review is missing",
        "it reads other names: total is new",
        "it is empty",
        "the write binding <:1> is malformed: it is not a Python identifier; escape it as \\<:1>",
    ]


@pytest.mark.anyio
async def test_wordings_of_the_caller_need_no_proposals(load: Callable[..., ModuleType]) -> None:
    module, answers = load(SOURCE), Answers(GOOD)
    improvement = await improve(
        module.stars, samples(), model=answers.executor, wordings=[GOOD], proposals=0, examples=0
    )
    assert (improvement.verdict, list(improvement.texts)) == ("improved", ["original", "wording 1"])
    assert not answers.asked
    with pytest.raises(EvaluationError, match="wordings is a list of texts"):
        await improve(module.stars, samples(), model=answers.executor, wordings=GOOD)


@pytest.mark.anyio
async def test_bad_arguments_are_refused_before_anything_is_spent(
    load: Callable[..., ModuleType], tmp_path: Path
) -> None:
    module, answers = load(SOURCE), Answers(GOOD)
    with pytest.raises(CaseError, match=r"10, of which 5 to train on and 5 held out.*give 12 cases or more"):
        await improve(module.stars, samples(2), model=answers.executor)
    with pytest.raises(EvaluationError, match="held_out is a part"):
        await improve(module.stars, samples(), model=answers.executor, held_out=1)
    with pytest.raises(EvaluationError, match="proposals is a number"):
        await improve(module.stars, samples(), model=answers.executor, proposals=-1)
    with pytest.raises(EvaluationError, match="pass_mark is a number"):
        await improve(
            module.stars,
            samples(),
            model=answers.executor,
            pass_mark="x",  # type: ignore[arg-type]
            folder=tmp_path / "not there",
        )
    assert not (tmp_path / "not there").exists()
    assert not answers.programs


@pytest.mark.anyio
@pytest.mark.parametrize("steps", [0, 3, 9, 12, 30, 60, 75])
async def test_the_budget_holds_over_everything(load: Callable[..., ModuleType], steps: int) -> None:
    module, answers = load(SOURCE), Answers(GOOD)
    improvement = await improve(
        module.stars, samples(), model=answers.executor, budget=nh.budget(steps=steps), max_concurrent=2
    )
    assert len(answers.programs) <= steps
    if "budget is spent" in improvement.reason:
        assert improvement.comparison is None or len(improvement.comparison.cases) < 10
    else:
        assert improvement.verdict == "improved"


@pytest.mark.anyio
@pytest.mark.parametrize("steps", [5, 9, 25, 45])
async def test_nothing_is_paid_for_twice_after_an_interruption(
    load: Callable[..., ModuleType], tmp_path: Path, steps: int
) -> None:
    module, whole = load(SOURCE), Answers(GOOD)
    expected = await improve(module.stars, samples(), model=whole.executor, max_concurrent=1)
    folder, answers = tmp_path / "improvement", Answers(GOOD)
    left = steps

    def answer(call: StepCall) -> object:
        nonlocal left
        left -= 1
        if left == -1:
            raise KeyboardInterrupt
        return answers._answer(call)

    broken = CallbackExecutor(answer)  # type: ignore[arg-type]
    with pytest.raises(BaseException):  # noqa: B017, PT011
        await improve(module.stars, samples(), model=broken, folder=folder, max_concurrent=1)
    assert len(answers.programs) == steps
    again = await improve(module.stars, samples(), model=answers.executor, folder=folder, max_concurrent=1)
    assert len(answers.programs) == len(whole.programs)
    assert (again.diff, again.comparison, again.texts) == (expected.diff, expected.comparison, expected.texts)


@pytest.mark.anyio
async def test_a_folder_does_not_go_on_with_other_arguments(
    load: Callable[..., ModuleType], tmp_path: Path
) -> None:
    module, answers, folder = load(SOURCE), Answers(GOOD), tmp_path / "improvement"
    go_on = partial(improve, module.stars, model=answers.executor, folder=folder, proposals=0)
    await go_on(samples(), wordings=[GOOD])
    paid = len(answers.programs)
    again = await go_on(samples(), wordings=[GOOD], budget=nh.budget(steps=1), max_concurrent=1)
    assert again.verdict == "improved"
    with pytest.raises(
        ReportError, match=r"improvement belongs to another improvement, with other wordings\."
    ):
        await go_on(samples(), wordings=["Count <review>.", GOOD])
    with pytest.raises(ReportError, match="with other cases and another seed") as caught:
        await go_on(samples(5), wordings=[GOOD], seed=3)
    assert "Give another folder=, or delete it" in str(caught.value)
    with pytest.raises(ReportError, match="another part held out"):
        await go_on(samples(), wordings=[GOOD], held_out=0.6)
    path = Path(str(module.__file__))
    changed_module = load(SOURCE.replace("how many", "which number of"))
    changed_module.stars.__wrapped__.__module__ = path.stem
    with pytest.raises(ReportError, match=r"with another version of the function\."):
        await improve(
            changed_module.stars,
            samples(),
            model=answers.executor,
            folder=folder,
            proposals=0,
            wordings=[GOOD],
        )
    (folder / "improvement.json").write_text("{")
    with pytest.raises(ReportError, match="describes no improvement"):
        await go_on(samples(), wordings=[GOOD])
    assert len(answers.programs) == paid


@pytest.mark.anyio
async def test_a_proposal_that_fails_is_rejected_and_the_others_go_on(
    load: Callable[..., ModuleType],
) -> None:
    module, answers = load(SOURCE), Answers(GOOD)

    def answer(call: StepCall) -> object:
        if "as short and plain" in call.natural_program:
            raise ValueError("no idea")
        return answers._answer(call)

    improvement = await improve(module.stars, samples(), model=CallbackExecutor(answer))  # type: ignore[arg-type]
    assert improvement.verdict == "improved"
    assert any("wording 2: " in each and "no idea" in each for each in improvement.rejected)


@pytest.mark.anyio
async def test_a_connection_that_breaks_while_proposals_are_made_is_an_error(
    load: Callable[..., ModuleType],
) -> None:
    module, answers = load(SOURCE), Answers(GOOD)

    def answer(call: StepCall) -> object:
        if "better instruction" in call.natural_program:
            raise ModelConnectionError("down", is_transient=True)
        return answers._answer(call)

    with pytest.raises(NighthawkError, match="down"):
        await improve(module.stars, samples(), model=CallbackExecutor(answer))  # type: ignore[arg-type]


# Functions with another block.


def changed(function: Any, body: str) -> Any:
    return find_block(function).function_with(body)


async def run(function: Any, *args: Any) -> tuple[object, str]:
    """Call a function; return its result and the program of its step."""
    programs: list[str] = []

    def answer(call: StepCall) -> object:
        programs.append(call.natural_program)
        return return_response(repr(sorted(call.step_locals)))

    async with nh.run(CallbackExecutor(answer)):  # type: ignore[arg-type]
        result = function(*args)
        return (await result if hasattr(result, "__await__") else result), programs[0]


@pytest.mark.anyio
async def test_the_changed_function_has_the_variables_of_the_original(
    load: Callable[..., ModuleType],
) -> None:
    module = load(
        '''import nighthawk_async as nh

def make(limit):
    note = "seen"

    @nh.natural_function
    async def stars(review, /, *, most=5):
        """natural
        Return <review> up to <limit>, <note>.
        """
        return limit, most

    return stars
'''
    )
    function = module.make(3)
    other = changed(function, "Tell <review>, <limit>, <note>: x.")
    assert (await run(other, "r"))[1].strip() == "Tell <review>, <limit>, <note>: x."
    assert other.__qualname__ == function.__qualname__
    assert other.__kwdefaults__ == {"most": 5}
    assert find_text(other) == "Tell <review>, <limit>, <note>: x."
    assert (await run(function, "r"))[1].strip() == "Return <review> up to <limit>, <note>."


@pytest.mark.anyio
async def test_methods_and_options_of_the_decorator_are_kept(load: Callable[..., ModuleType]) -> None:
    module = load(
        """import nighthawk_async as nh

SEEN = []

def check(proposal):
    SEEN.append(proposal)

class Critic:
    name = "ada"

    @nh.natural_function(verify=check)
    async def rate(self, review: str) -> list[str]:
        "natural\\nReturn <self.name> and <review>."
        return []
"""
    )
    critic = module.Critic()
    other = changed(critic.rate, 'Say "<self.name>" \\ <review>"')
    assert other.__self__ is critic
    assert (await run(other, "r"))[1] == 'Say "<self.name>" \\ <review>"'
    assert len(module.SEEN) == 1


@pytest.mark.anyio
async def test_an_inline_block_and_a_synchronous_function_can_be_changed(
    load: Callable[..., ModuleType],
) -> None:
    module = load(
        """import nighthawk_async as nh

@nh.natural_function
def count(review: str) -> int:
    total = 0
    if review:
        '''natural
        ---
        deny: [raise]
        ---

        Set <:total> to stars of <review>.
          - indented
        '''
    return total
"""
    )
    source = find_block(module.count)
    assert source.body == "Set <:total> to stars of <review>.\n  - indented"
    text = source.text_with("<review> has <:total>:\n\n- one\n  - two")
    expected = """
        deny: [raise]
        ---

        <review> has <:total>:

        - one
          - two
        '''
"""
    assert expected in text
    assert source.objection("<review> has <:total>:\n\n- one\n  - two") is None
    report = await evaluate(
        source.function_with("Put <:total>, <review>."),
        [Case("a", inputs={"review": "x"}, expected=4)],
        model=CallbackExecutor(lambda _: pass_response(total=4)),  # type: ignore[arg-type, return-value]
    )
    assert report.pass_rate == 1
    assert report.subject_digest is not None


def test_functions_whose_block_cannot_be_changed_are_refused(load: Callable[..., ModuleType]) -> None:
    module = load(
        '''import functools
import nighthawk_async as nh

@nh.natural_function
async def fancy(review):
    f"""natural
    Return {review}.
    """

@nh.natural_function
async def twice(review):
    """natural
    Return <review>.
    """
    """natural
    Return <review> again.
    """

@nh.natural_function
async def recursive(review):
    """natural
    Return <review>.
    """
    return await recursive(review)

def other(function):
    @functools.wraps(function)
    async def wrapper(*args):
        return await function(*args)
    return wrapper

@other
@nh.natural_function
async def wrapped(review):
    """natural
    Return <review>.
    """

async def plain(review):
    return review
'''
    )
    refusals = [
        (module.fancy, "is an f-string"),
        (module.twice, "has several blocks; say which with block=: 1 at line 12, 2 at line 15"),
        (module.recursive, "calls itself"),
        (module.wrapped, "Only a natural function can be improved"),
        (module.plain, "Only a natural function can be improved"),
        (partial(module.twice), "Only a natural function can be improved"),
    ]
    for function, message in refusals:
        with pytest.raises(EvaluationError) as caught:
            find_block(function)
        assert message in str(caught.value)
    assert find_block(module.twice, 2).body == "Return <review> again."
    with pytest.raises(EvaluationError, match="has no block 3; it has 2"):
        find_block(module.twice, 3)
    path = Path(str(module.__file__))
    path.write_text(path.read_text().replace("<review> again", "<review> never"))
    with pytest.raises(EvaluationError, match="has changed since"):
        find_block(module.twice, 2)


@pytest.mark.parametrize(
    "data",
    [
        SOURCE.replace("\n", "\r\n").encode(),
        ("\ufeff" + SOURCE).encode(),
        SOURCE.replace("nh\n", "nh\r\n").encode(),
        SOURCE.replace("    ", "\t").encode(),
        SOURCE.rstrip("\n").encode(),
        SOURCE.replace("    return 0\n", "    ").rstrip().encode(),
        ("# -*- coding: latin-1 -*-\n# gr\xfcn\n" + SOURCE).encode("latin-1"),
        SOURCE.replace('"""natural', 'r"""natural').encode(),
        SOURCE.replace("gives.", "gives \u2028\t\x0c \U0001f41e.").encode(),
    ],
    ids=[
        "crlf",
        "bom",
        "both line ends",
        "tabs",
        "no newline",
        "ends with the block",
        "latin-1",
        "raw",
        "odd characters",
    ],
)
def test_the_diff_applies_whatever_the_file_is_like(load: Callable[..., ModuleType], data: bytes) -> None:
    module = load("", data=data)
    path = Path(str(module.__file__))
    source = find_block(module.stars)
    assert find_text(source.function_with(GOOD)) == GOOD
    improvement = Improvement(
        subject="x", block=1, wording="", original="", diff=source.diff_with(GOOD), encoding=source.encoding
    )
    improvement.save_diff(path.parent / "change.patch")
    subprocess.run(["git", "apply", "change.patch"], cwd=path.parent, check=True)
    assert path.read_bytes() == source.text_with(GOOD).encode(source.encoding)


BODIES = st.text(
    alphabet=st.one_of(st.characters(codec="utf-8"), st.sampled_from(list("\"'\\\n <>:natural\t{}"))),
    max_size=60,
)


@pytest.fixture(scope="module")
def module_of_stars(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("stars") / "stars_of_property.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[path.stem]


@given(text=BODIES)
def test_every_accepted_text_becomes_that_of_the_block(module_of_stars: Any, text: str) -> None:
    source = find_block(module_of_stars.stars)
    body = f"{text} <review>"
    if source.objection(body) is None:
        other = source.function_with(body)
        assert find_text(other) == body.strip()
    source.forget()
    assert not any("<stars_of_property.py with" in name for name in linecache.cache)


def find_text(function: Any) -> str:
    """Return the text of the only block, with its escapes, from the source that Python has."""
    return find_body(inspect.getsource(function.__wrapped__))


def find_body(source: str) -> str:
    statement = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
    literal = natural_literal(statement.body[0])
    assert isinstance(literal, ast.Constant)
    return program_body(str(literal.value), filename="", line=1).strip()
