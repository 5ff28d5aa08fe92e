"""The checks of `rocm-sdk test` as they are printed and counted."""

from __future__ import annotations

import sys
from collections import Counter


class Report:
    """Prints a line for each check, under a heading for each kind, and counts them."""

    def __init__(self, *, quiet: bool):
        self.quiet = quiet
        self.counts: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self._heading: str | None = None
        self._printed: str | None = None

    def say(self, text: str) -> None:
        """A line that is no check."""
        if not self.quiet:
            print(text, flush=True)

    def section(self, heading: str) -> None:
        """The checks that follow belong under this heading; it is printed with the first of them."""
        self._heading = heading

    def ok(self, what: str, detail: str = "") -> None:
        """A check that passed."""
        self.counts["ok"] += 1
        if not self.quiet:
            self._line("ok", what, detail)

    def skip(self, what: str, reason: str) -> None:
        """A check that could not be made here."""
        self.counts["skip"] += 1
        self.skipped[reason] += 1
        self._line("skip", what, reason)

    def fail(self, what: str, reason: str) -> None:
        """A check that failed."""
        self.counts["FAIL"] += 1
        self._line("FAIL", what, reason)

    def note(self, text: str) -> None:
        """Something to know that is neither right nor wrong."""
        self._line("note", text, "")

    def _line(self, verdict: str, what: str, detail: str) -> None:
        if self._heading != self._printed:
            print(f"\n{self._heading}")
            self._printed = self._heading
        lines = detail.strip().splitlines() or [""]
        print(f"  {verdict:<5} {what}" + (f": {lines[0]}" if lines[0] else ""))
        for line in lines[1:]:
            print(f"          {line}")
        sys.stdout.flush()

    def finish(self) -> int:
        """Prints the counts; 1 if a check failed, or if there was none, else 0."""
        total = sum(self.counts.values())
        print(
            f"\n{total} checks: {self.counts['ok']} passed, {self.counts['FAIL']} failed, {self.counts['skip']} skipped"
        )
        for reason, count in sorted(self.skipped.items()):
            print(f"  skipped {count}: {reason}")
        return 1 if self.counts["FAIL"] or not self.counts["ok"] else 0
