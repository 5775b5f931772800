"""Ports of policies for the agents of steps, beside the methods of `Policy`."""

from typing import TYPE_CHECKING

from ..configuration import StepContextLimits
from ..kernel.environment import Environment, find_environment
from ..kernel.policy import Policy
from ..ports import Model
from ..types.model import ModelRequest

if TYPE_CHECKING:  # programs whose executor is their own need no agent
    from ..prompt.tokens import TokenCounter
    from .provided_tools import ProvidedTool
    from .task import AgentTask, Conversation
    from .toolbox import ResultRoom


class Offering(Policy):
    """A policy that offers something to the models of steps, beside the tools of the program."""

    __slots__ = ()

    async def listed(
        self, environment: Environment, limits: StepContextLimits, counter: "TokenCounter"
    ) -> str:
        """Return its part of the system prompt of a step; empty for none.

        Args:
            environment: The environment of the step.
            limits: The limits of prompts.
            counter: Counts tokens.

        Raises:
            ConfigurationError: The part exceeds a limit.
        """
        return ""

    def provided_tool(
        self, environment: Environment, room: "ResultRoom", model: Model | None
    ) -> "ProvidedTool | None":
        """Return the tool that it offers to a step; None for none.

        Args:
            environment: The environment of the step.
            room: The room that results have.
            model: The model that is asked; None when that is not known.
        """


class Fitting(Policy):
    """A policy that makes room in conversations that outgrow the context of their model; one at most."""

    __slots__ = ()

    async def fitted(
        self, model: Model, task: "AgentTask", request: ModelRequest, tokens: int
    ) -> ModelRequest:
        """Return a request that fits the context of its model.

        Args:
            model: The model.
            task: The step.
            request: The request, with all messages that are sent so far.
            tokens: Its size, which exceeds the threshold of the conversation.

        Raises:
            ContextWindowError: It cannot be made to fit.
            Exception: Any error of a policy, or of what makes room.
        """
        return request

    def check_size(
        self, step_id: str, conversation: "Conversation", model: Model, request: ModelRequest
    ) -> None:
        """Refuse a request that cannot be made to fit.

        Args:
            step_id: The step, for the error.
            conversation: Its conversation, which has a threshold.
            model: The model.
            request: The request.

        Raises:
            ContextWindowError: It is larger than the context of its model.
        """


_NOTHING = Fitting()


def active_fitting() -> Fitting:
    """Return the active policy that makes room; one that does nothing if there is none."""
    environment = find_environment()
    found = () if environment is None else environment.policies.all_of(Fitting)
    return found[0] if found else _NOTHING
