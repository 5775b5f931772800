"""The twenty-five programs, a module each."""

from collections.abc import Sequence

from ..program import Program
from . import (
    alarms,
    basket,
    battle,
    calendar,
    coffee,
    creatures,
    dates,
    discount,
    expenses,
    guessing,
    handbook,
    inbox,
    ledger,
    matrix,
    noughts,
    ordering,
    organisation,
    parcel,
    payments,
    roads,
    rota,
    seating,
    stock,
    subtitles,
    tasks,
)

__all__ = ["PROGRAMS"]

PROGRAMS: Sequence[Program] = (
    basket.PROGRAM,
    tasks.PROGRAM,
    stock.PROGRAM,
    seating.PROGRAM,
    organisation.PROGRAM,
    roads.PROGRAM,
    matrix.PROGRAM,
    battle.PROGRAM,
    noughts.PROGRAM,
    guessing.PROGRAM,
    calendar.PROGRAM,
    dates.PROGRAM,
    ledger.PROGRAM,
    inbox.PROGRAM,
    coffee.PROGRAM,
    subtitles.PROGRAM,
    handbook.PROGRAM,
    parcel.PROGRAM,
    expenses.PROGRAM,
    payments.PROGRAM,
    discount.PROGRAM,
    ordering.PROGRAM,
    alarms.PROGRAM,
    rota.PROGRAM,
    creatures.PROGRAM,
)
