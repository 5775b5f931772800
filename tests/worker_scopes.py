"""What crosses to workers with a scope, and functions that show it there."""

from dataclasses import dataclass

import nighthawk_async as nh
from nighthawk_async.hooks import Hooks, StepStarted
from nighthawk_async.kernel.environment import find_policies, get_environment
from nighthawk_async.kernel.run_state import current_depth
from nighthawk_async.oversight import Accept, Proposal, Reject, ToolCallInspection
from nighthawk_async.skills.scope import offered_skills
from nighthawk_async.testing import (
    ModelResponse,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    tool_call,
)
from nighthawk_async.transcripts.past import PastPolicy

hooks = Hooks()
began: list[str] = []


@hooks.on(StepStarted)
def note_step(event: StepStarted) -> None:
    began.append(event.execution_ref.run_id)


def note_again(event: StepStarted) -> None:
    began.append("again")


class NoCommits:
    """An oversight object without attributes."""

    async def inspect_tool_call(self, inspection: ToolCallInspection) -> Accept:
        return Accept()

    async def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> Reject:
        return Reject(reason="no commits today")


def never_done(proposal: Proposal) -> str:
    return "it is never done"


def look_up(word: str) -> str:
    """Look a word up."""
    return word.upper()


def is_short(word: str) -> bool:
    return len(word) < 3


@dataclass(frozen=True)
class Settings:
    limits: tuple[int, ...] = (1, 2)


class Counting:
    """An object with a state."""

    def __init__(self) -> None:
        self.number = 0

    def count(self, event: StepStarted) -> None:
        self.number += 1


class CountingPolicy(nh.Policy):
    def __init__(self) -> None:
        self.number = 0


class CopiedPolicy(CountingPolicy):
    """A policy whose copies are fine."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return CopiedPolicy, ()


class PlainPolicy(nh.Policy):
    """A policy without attributes."""

    async def before_step(self) -> None:
        began.append("policy")


@dataclass(frozen=True)
class HookedPolicy(nh.Policy):
    """A policy that has hooks."""

    held: Hooks


def answer(call: StepCall) -> StepResponse:
    return pass_response(**dict.fromkeys(call.binding_names, "done"))


@nh.natural_function
async def step(word: str) -> str:
    """natural
    Set <:result> for <word>.
    """
    return result


@nh.natural_function
async def tidied(word: str) -> str:
    """natural
    Follow <tidy_up>, and set <:result> for <word>.
    """
    return result


async def described(_: int) -> dict[str, object]:
    """Describe the scope in which a call is."""
    environment = get_environment()
    offered = environment.tool_scope.offered()
    return {
        "references": {name: repr(value) for name, value in environment.implicit_references.items()},
        "tools": [*offered.listed, *(f"{name} (deferred)" for name in offered.deferred)],
        "system": list(environment.system_prompt_suffix_fragments),
        "user": list(environment.user_prompt_suffix_fragments),
        "policies": [type(each).__name__ for each in environment.policies.active],
        "skills": sorted(offered_skills(environment.policies)),
        "past": sum(
            len(each.messages) for each in environment.policies.active if isinstance(each, PastPolicy)
        ),
        "cache": bool(find_policies()),
        "max_depth": environment.max_depth - current_depth(),
        "mutation": [repr(each) for each in environment.policies.active if "Shared" in repr(each)],
    }


async def steps_in_scope(_: int) -> str:
    """Run a step in a scope whose hooks are active already."""
    async with nh.scope(hooks=hooks):
        return await step("a")


def model_that_looks_up(request: nh.models.ModelRequest) -> ModelResponse:
    """Call a tool, and end with the names of all tools."""
    names = ", ".join(tool.name for tool in request.tools if not tool.name.startswith("nh_"))
    if len(request.messages) == 1:
        return model_response(tool_call("look_up", word="a"))
    return model_response(tool_call("nh_outcome", kind="pass", bindings={"result": names}))


async def seed(_: int) -> int | None:
    return nh.evals.current_seed()
