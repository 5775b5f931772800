"""Exports of `nighthawk_async`. Each name is loaded on first use."""

from . import (
    actors,
    asgi,
    credentials,
    distributed,
    errors,
    evals,
    executors,
    hooks,
    human,
    journal,
    library,
    mcp,
    models,
    observe,
    oversight,
    parallel,
    policies,
    resilience,
    runtime,
    skills,
    telemetry,
)
from .configuration import StepContextLimits, StepExecutorConfiguration, StepPromptTemplates
from .errors import (
    BudgetExceededError,
    ConfigurationError,
    ExecutionError,
    ModelError,
    NaturalParseError,
    NighthawkError,
    ToolEvaluationError,
    ToolRegistrationError,
    ToolValidationError,
)
from .executors.agent import AgentStepExecutor
from .executors.coding_agent_settings import ClaudeCodeCliSettings, ClaudeCodeSdkSettings, CodexSettings
from .executors.transcripts import Transcript, transcript
from .functions import natural_function
from .hooks import Hooks
from .human import ask_user, request_approval
from .journal.effects import once, repeatable
from .models.batched import batched
from .parallel import current_task, deadline, open_tasks
from .policies.budgets.budget import budget
from .policies.budgets.terms import BudgetLimits
from .policies.permissions.permissions import permissions
from .policies.permissions.rules import rule
from .runs import run
from .runtime.blocking import blocking
from .runtime.environment import (
    get_current_step_actor,
    get_current_step_context,
    get_execution_ref,
    get_step_executor,
    get_usage_meter,
)
from .runtime.partial_delivery import partial_values
from .runtime.policy import Policy
from .runtime.resources import resource
from .runtime.snapshot import shared
from .runtime.step_context import StepContext
from .runtime.tool_decorator import tool
from .runtime.tool_function import RunContext
from .runtime.tool_sets import tool_set
from .scopes import scope
from .steps import step, step_sync
from .types.execution import ExecutionRef, PartialValues
from .types.json import JsonableValue
from .types.messages import BinaryContent, ImageUrl
from .types.native_tools import CodeExecution, FileSearch, UserLocation, WebSearch
from .types.unset import unset
from .types.usage import Usage

__all__ = [
    "AgentStepExecutor",
    "BinaryContent",
    "BudgetExceededError",
    "BudgetLimits",
    "ClaudeCodeCliSettings",
    "ClaudeCodeSdkSettings",
    "CodeExecution",
    "CodexSettings",
    "ConfigurationError",
    "ExecutionError",
    "ExecutionRef",
    "FileSearch",
    "Hooks",
    "ImageUrl",
    "JsonableValue",
    "ModelError",
    "NaturalParseError",
    "NighthawkError",
    "PartialValues",
    "Policy",
    "RunContext",
    "StepContext",
    "StepContextLimits",
    "StepExecutorConfiguration",
    "StepPromptTemplates",
    "ToolEvaluationError",
    "ToolRegistrationError",
    "ToolValidationError",
    "Transcript",
    "Usage",
    "UserLocation",
    "WebSearch",
    "actors",
    "asgi",
    "ask_user",
    "batched",
    "blocking",
    "budget",
    "credentials",
    "current_task",
    "deadline",
    "distributed",
    "errors",
    "evals",
    "executors",
    "get_current_step_actor",
    "get_current_step_context",
    "get_execution_ref",
    "get_step_executor",
    "get_usage_meter",
    "hooks",
    "human",
    "journal",
    "library",
    "mcp",
    "models",
    "natural_function",
    "observe",
    "once",
    "open_tasks",
    "oversight",
    "parallel",
    "partial_values",
    "permissions",
    "policies",
    "repeatable",
    "request_approval",
    "resilience",
    "resource",
    "rule",
    "run",
    "runtime",
    "scope",
    "shared",
    "skills",
    "step",
    "step_sync",
    "telemetry",
    "tool",
    "tool_set",
    "transcript",
    "unset",
]

__version__: str
