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
from .coding_agents.settings import ClaudeCodeCliSettings, ClaudeCodeSdkSettings, CodexSettings
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
from .functions import natural_function
from .hooks import Hooks
from .human import ask_user, request_approval
from .journal.effects import once, repeatable
from .kernel.context import StepContext
from .kernel.environment import (
    get_current_step_actor,
    get_current_step_context,
    get_execution_ref,
    get_step_executor,
    get_usage_meter,
    resource,
)
from .kernel.policy import Policy
from .kernel.progress import progress
from .kernel.tool_sets import tool, tool_set
from .kernel.tools import RunContext
from .models.batched import batched
from .parallel import current_task, deadline, open_tasks
from .policies.budgets.budget import budget
from .policies.budgets.terms import BudgetLimits
from .policies.egress.egress import egress
from .policies.partial_values import partial_values
from .policies.permissions.permissions import permissions
from .policies.permissions.rules import rule
from .runs import run, start_run, start_run_sync
from .sandbox.declaration import Sandbox
from .scopes import scope
from .steps import step, step_sync
from .threads import blocking
from .transcripts.citations import citations
from .transcripts.transcript import Transcript, transcript
from .types.execution import ExecutionRef, PartialValues
from .types.json import JsonableValue
from .types.messages import BinaryContent, ImageUrl
from .types.native_tools import CodeExecution, FileSearch, UserLocation, WebSearch
from .types.unset import unset
from .types.usage import Usage
from .values.snapshots import shared

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
    "Sandbox",
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
    "citations",
    "credentials",
    "current_task",
    "deadline",
    "distributed",
    "egress",
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
    "progress",
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
    "start_run",
    "start_run_sync",
    "step",
    "step_sync",
    "telemetry",
    "tool",
    "tool_set",
    "transcript",
    "unset",
]

__version__: str
