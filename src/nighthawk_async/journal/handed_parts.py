"""The parts of a run that other processes record, as the process of the run sees them; see `parts`."""

import time
from collections.abc import Sequence

import msgspec

from .acknowledgement import Acknowledgement
from .errors import JournalDivergenceError, JournalError
from .frames import is_within
from .parts import HandedOut, PartEnd, RunPart
from .recorder import RunRecorder
from .records import LifeTimes, Record


class PartsRecorder(RunRecorder):
    """The journal of a run that hands parts of it out, and takes them back."""

    def hand_out(self, place: str) -> RunPart:
        """Hand a part of the run to another process, which records it until it is taken back or handed anew.

        Args:
            place: The place of the part; this process records nothing in it meanwhile.
        """
        place = self.relative(place)
        self._index.reach(place)
        self.delivery.close(place)  # the other process has an order of its own
        self._index.leave_to_others(place)
        handed = self._handed_out.setdefault(place, HandedOut())
        handed.times += 1
        self.write_orders()
        now = LifeTimes(first_at=self._begun_at, last_at=time.time())
        return RunPart(
            run_id=self.run_id,
            epoch=self.epoch,
            life=f"{self.life}.{handed.times}",
            root=self._root,
            place=place,
            durability=self._durability,
            new_code=self._new_code,
            rules=self.rules,
            records=[*self._index.records_in(place), *(() if handed.had_writer else handed.records)],
            lives={**self._index.lives(), self.epoch: now},
            divergence=self._divergence_at(place),
            identity=self.identity_version,
        )

    def _divergence_at(self, place: str) -> tuple[str, str] | None:
        """The text and the place of the error that refuses anything new in a place; None for none."""
        try:
            RunRecorder.check_new(self, place)
        except JournalDivergenceError as error:
            return str(error), error.place
        return None

    def take_in(self, place: str, records: Sequence[Record]) -> Acknowledgement[None]:
        """Record what another process has recorded in its part of the run.

        Args:
            place: The place of the part.
            records: The records, in order, with numbers and times of that process.

        Returns:
            The acknowledgement that they are durable, as is everything that was recorded before.

        Raises:
            JournalError: The run was taken over, or the store failed; or the records are not of that part.
        """
        place = self.relative(place)
        if not all(is_within(each.place, place) for each in records):
            raise JournalError(f"{place}: its process has recorded something elsewhere; please report this.")
        self.write_orders()
        with self._lock:
            self._cleanup = None
            now, first = time.time(), self._seq + 1
            self._seq += len(records)
            taken = [
                msgspec.structs.replace(each, seq=seq, at=now, epoch=self.epoch)
                for seq, each in enumerate(records, first)
            ]
            self._last_written = written = self._append(taken)
        self._handed_out[place].records += taken
        if self.activity is not None:
            self.activity.note_record()
        return written

    def hand_to_writer(self, place: str, writer: str) -> list[Acknowledgement[None]]:
        """Let the process that is given a part append to the store itself.

        Args:
            place: The place of the part.
            writer: The writer.

        Returns:
            What it has to wait for: that it is admitted, and that what was recorded before is durable.
        """
        assert self.writers is not None
        self._handed_out[self.relative(place)].had_writer = True
        awaited = (self.writers.admit(writer), self._last_written)
        return [each for each in awaited if each is not None and not each.is_done]

    def find_handed(self, place: str) -> Acknowledgement[list[Record]] | None:
        """Read what a lost writer may have recorded in a part; None where there was none."""
        place = self.relative(place)
        had_writer = self._handed_out[place].had_writer
        return self.writers.find_records(place) if self.writers is not None and had_writer else None

    def take_back(self, place: str, end: PartEnd) -> None:
        """Take a part of the run back, whose process has ended its work.

        Args:
            place: The place of the part.
            end: The errors that it left with.
        """
        self._handed_out.pop(self.relative(place), None)
        for failed, here in end.open_errors.items():
            self._open_errors.add(failed, None, here)
        self._failed_groups += end.failed_groups
        if end.divergence is not None:
            self.delivery.diverge(end.divergence)

    def end_part(self) -> PartEnd:
        """Return the errors that this process leaves a part of a run with; see `take_back`."""
        return PartEnd(
            open_errors=self._open_errors.places(),
            failed_groups=self._failed_groups,
            divergence=self.delivery.divergence,
        )
