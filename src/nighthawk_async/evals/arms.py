"""Arms of a grid: subjects with executors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, cast

from ..configuration import StepExecutorConfiguration
from ..executors.choice import ExecutorChoice, chosen_executor
from ..kernel.context import ConfigurableStepExecutor
from ..types.json import is_text
from .cases import Subject
from .errors import EvaluationError


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm of a grid: one subject on one model.

        Arm("short, nano", classify_short, model="openai-responses:gpt-5.4-nano")

    Args:
        name: Its name, unique in the grid.
        subject: The function.
        model: The model of its steps, as for `nighthawk_async.run`: a model id or an executor. None for
            that of the active run.
    """

    name: str
    subject: Subject
    _: KW_ONLY
    model: ExecutorChoice | None = None

    def __post_init__(self) -> None:
        if not is_text(self.name) or not self.name.strip():
            raise EvaluationError(f"The name of an arm is a text that is not empty, not {self.name!r}.")
        if any("\ud800" <= each <= "\udfff" for each in self.name):  # it is written to files
            raise EvaluationError(f"The name of an arm is text without surrogates, not {self.name!r}.")
        if not callable(self.subject):
            raise EvaluationError(f"Arm {self.name!r}: the subject is a function, not {self.subject!r}.")

    @classmethod
    def product(
        cls,
        subjects: Mapping[str, Subject],
        models: Mapping[str, ExecutorChoice] | Sequence[str] | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> "list[Arm]":
        """Return an arm for each subject with each model and each setting, as named.

            Arm.product(
                {"short": classify_short, "long": classify_long},
                ["openai-responses:gpt-5.4-nano", "local:smollm2-135m"],
                {"cold": {"model_settings": {"temperature": 0}}, "5 turns": {"max_turns": 5}},
            )

        The names of the arms are those of their parts, joined with commas; a part that is the only one of its
        kind is left out of them, except that of the subject.

        Args:
            subjects: The variants of the function, by names.
            models: The models, by names; or model ids, which are their own names. None for that of the
                active run.
            settings: Fields of `StepExecutorConfiguration`, by names. `model_settings` are added to those
                that the executor has.

        Raises:
            EvaluationError: One of them is empty, or an executor takes no settings.
            ConfigurationError: A setting is wrong, or a model cannot be had.
        """
        named = {"": None} if models is None else _named(models)
        kinds: dict[str, Mapping[str, Any]] = {"": {}} if settings is None else dict(settings)
        for kind, parts in (("subjects", subjects), ("models", named), ("settings", kinds)):
            if not parts:
                raise EvaluationError(f"A product of arms has no {kind}.")
        return [
            cls(
                ", ".join(
                    [
                        subject_name,
                        *([model_name] if len(named) > 1 else []),
                        *([kind] if len(kinds) > 1 else []),
                    ]
                ),
                subject,
                model=_configured(model, fields),
            )
            for subject_name, subject in subjects.items()
            for model_name, model in named.items()
            for kind, fields in kinds.items()
        ]


def _named(models: Mapping[str, ExecutorChoice] | Sequence[str]) -> dict[str, ExecutorChoice | None]:
    if isinstance(models, Mapping):
        return dict(models)
    if isinstance(models, str) or not all(map(is_text, models)):
        raise EvaluationError(
            f"The models of a product are a mapping of names, or a list of model ids, not {models!r}."
        )
    return {each: each for each in models}


def _configured(model: ExecutorChoice | None, fields: Mapping[str, Any]) -> ExecutorChoice | None:
    """Return an executor with other fields of its configuration."""
    if not fields:
        return model
    if model is None:
        raise EvaluationError("Settings need models=…, whose configuration they change.")
    chosen = chosen_executor(model)
    if not isinstance(chosen, ConfigurableStepExecutor):
        raise EvaluationError(f"{type(chosen).__name__} takes no settings: it has no configuration.")
    present = chosen.configuration
    values = {name: getattr(present, name) for name in type(present).model_fields} | dict(fields)
    if "model_settings" in fields:
        values["model_settings"] = {**present.model_settings, **fields["model_settings"]}
    return chosen.with_configuration(StepExecutorConfiguration(**values))


def checked_arms(arms: Iterable[Arm]) -> tuple[Arm, ...]:
    """Check arms before anything is spent, and return them.

    Args:
        arms: The arms.

    Raises:
        EvaluationError: There are none, two have one name, or one is no arm.
    """
    given = tuple(arms)
    if not given:
        raise EvaluationError("A grid needs at least one arm.")
    names: set[str] = set()
    for arm in given:
        if not isinstance(cast("object", arm), Arm):
            raise EvaluationError(f"An arm is a nighthawk_async.evals.Arm, not {arm!r}.")
        if arm.name.casefold() in names:  # a report is a file of that name
            raise EvaluationError(f"Two arms have the name {arm.name!r}.")
        names.add(arm.name.casefold())
    return given
