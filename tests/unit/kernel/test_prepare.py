"""Making the state of a step where only other versions of Python, or odd programs, go."""

import pytest

import nighthawk_async as nh
from nighthawk_async.kernel.declared_types import resolve_annotation
from nighthawk_async.kernel.prepare import NaturalSite, prepare_step
from nighthawk_async.natural.blocks import NaturalBlock
from nighthawk_async.natural.program import NaturalProgram
from nighthawk_async.natural.transform import transform_function
from nighthawk_async.signatures import names_in_texts
from nighthawk_async.testing import ScriptedExecutor, pass_response
from tests.unit.kernel.step_contexts import make_context


async def template(value: int) -> int:
    """natural
    Set <:value>.
    """
    return value


def block_and_program() -> tuple[NaturalBlock, NaturalProgram]:
    block = transform_function(template).blocks[0]  # type: ignore[arg-type]
    assert block.program is not None
    return block, block.program


def test_annotations_that_cannot_be_evaluated_yet_are_an_execution_error() -> None:
    def annotations() -> dict[str, object]:
        raise NameError("name 'Later' is not defined")  # as Python 3.14 does when they are read

    block, program = block_and_program()
    with pytest.raises(nh.ExecutionError, match="'Later' is not defined; names used in them"):
        prepare_step(
            block=block,
            program=program,
            site=NaturalSite(module_globals={}, annotations=annotations),
            python_locals={"value": 1},
            parent=None,
            implicit_references={},
            execution_ref=nh.ExecutionRef(run_id="r", scope_id="s"),
        )


def test_names_of_the_runtime_stay_out_of_the_step() -> None:
    block, program = block_and_program()
    parent = make_context(__builtins__="the parent's", inherited=1)
    context = prepare_step(
        block=block,
        program=program,
        site=NaturalSite(module_globals={}, annotations=dict),
        python_locals={"value": 1, "__nighthawk_run__": None},
        parent=parent,
        implicit_references={"implicit": 2},
        execution_ref=nh.ExecutionRef(run_id="r", scope_id="s"),
    )
    assert context.step_locals == {"inherited": 1, "value": 1}
    assert context.step_globals["implicit"] == 2
    assert context.return_annotation is object


@pytest.mark.anyio
async def test_a_text_that_is_no_expression_hinders_only_what_needs_its_type() -> None:
    @nh.natural_function
    async def odd(value: "no expression", other: int) -> "neither this":  # type: ignore # noqa: F722
        """natural
        ---
        deny: [return]
        ---
        Set <:other>.
        """
        return other

    async with nh.run(ScriptedExecutor([pass_response(other=2)])):
        assert await odd(1, 1) == 2


def test_names_are_found_in_nested_texts() -> None:
    annotation = dict["Key", list["Value | Other"]]  # type: ignore[name-defined]
    assert set(names_in_texts(annotation)) == {"Key", "Value", "Other"}


def test_none_is_an_annotation() -> None:
    assert resolve_annotation(None, make_context(), subject="it") is None
    assert resolve_annotation("None", make_context(), subject="it") is None
    assert resolve_annotation("'int'", make_context(), subject="it") is int
