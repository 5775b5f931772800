"""A run's figures as a document that can be kept and read again. It measures and judges nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ..machine import Machine
from ..measure import Result, Suite
from ..running import Outcome

__all__ = ["FORMAT", "BadReportError", "Report", "read_report", "write_report"]

FORMAT = 2
"""The form of the document; 1 had seconds only."""


class BadReportError(Exception):
    """A file holds no report, or one of another form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything a run found.

    Args:
        taken_at: When it began, in ISO 8601 form, in UTC.
        suite: How much was measured.
        machine: The machine and the source.
        load_before: The load average before the first benchmark; None where the system does not tell.
        outcomes: How each benchmark ended, in the order of measuring.
        format: The form of the document.
    """

    taken_at: str
    suite: Suite
    machine: Machine
    load_before: float | None
    outcomes: tuple[Outcome, ...]
    format: int = FORMAT

    @property
    def results(self) -> Iterator[Result]:
        """Every result, in the order of measuring."""
        return (result for outcome in self.outcomes for result in outcome.results)

    @property
    def failures(self) -> list[Outcome]:
        """The benchmarks that failed."""
        return [outcome for outcome in self.outcomes if outcome.state == "failed"]

    @property
    def lossy(self) -> list[Outcome]:
        """The benchmarks that were measured, but some of whose operations failed."""
        return [outcome for outcome in self.outcomes if self.errors_of(outcome.benchmark)]

    def errors_of(self, benchmark: str) -> float:
        """The most operations of a benchmark that failed in one round."""
        errors = self.result("errors", benchmark=benchmark)
        return 0.0 if errors is None else errors.worst

    def result(
        self,
        metric: str,
        *,
        benchmark: str | None = None,
        workload: str | None = None,
        subject: str | None = None,
        concurrency: int | None = None,
    ) -> Result | None:
        """The first result of a metric that fits, if there is one.

        Args:
            metric: The metric's name.
            benchmark: The benchmark's name; None for any, as with all that follows.
            workload: The benchmark's workload.
            subject: The benchmark's subject.
            concurrency: Steps in flight at once.
        """
        wanted = {
            "benchmark": benchmark,
            "workload": workload,
            "subject": subject,
            "concurrency": concurrency,
        }
        for result in self.results:
            if result.metric == metric and all(
                value is None or getattr(result, name) == value for name, value in wanted.items()
            ):
                return result
        return None


def write_report(report: Report, file: Path) -> None:
    """Write a report as JSON, with what follows from each result beside its rounds.

    Args:
        report: The report.
        file: Where to; folders that are missing are made.
    """
    data: dict[str, Any] = msgspec.to_builtins(report)
    for outcome, written in zip(report.outcomes, data["outcomes"], strict=True):
        for result, figures in zip(outcome.results, written["results"], strict=True):
            figures |= {
                "unit": result.kind.unit,
                "better": result.kind.better,
                "median": result.median,
                "best": result.best,
                "worst": result.worst,
                "spread": result.spread,
            }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n")


def read_report(file: Path) -> Report:
    """Read a report that `write_report` has written.

    Args:
        file: The file.

    Raises:
        BadReportError: There is no such file, or it holds no report of this form.
    """
    try:
        report = msgspec.json.decode(file.read_bytes(), type=Report)
    except OSError as error:
        raise BadReportError(f"{file} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise BadReportError(f"{file} holds no report of this form: {error}") from error
    if report.format != FORMAT:
        raise BadReportError(f"{file} has form {report.format}; this is form {FORMAT}")
    return report
