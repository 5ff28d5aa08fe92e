"""Prints and counts the checks of `rocm-sdk test`."""

from __future__ import annotations

import sys
from collections import Counter


class Report:
    """Prints a line for each check, with a heading for each kind, and counts them."""

    def __init__(self, *, quiet: bool):
        self.quiet = quiet
        self.counts: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self._heading: str | None = None
        self._printed: str | None = None

    def say(self, text: str) -> None:
        """Prints a line that is not a check."""
        if not self.quiet:
            print(text, flush=True)

    def section(self, heading: str) -> None:
        """Starts a group of checks. The heading is printed with the first of them."""
        self._heading = heading

    def ok(self, what: str, detail: str = "") -> None:
        """Reports a check that passed."""
        self.counts["ok"] += 1
        if not self.quiet:
            self._line("ok", what, detail)

    def skip(self, what: str, reason: str) -> None:
        """Reports a check that is not possible here."""
        self.counts["skip"] += 1
        self.skipped[reason] += 1
        self._line("skip", what, reason)

    def fail(self, what: str, reason: str) -> None:
        """Reports a check that failed."""
        self.counts["FAIL"] += 1
        self._line("FAIL", what, reason)

    def note(self, text: str) -> None:
        """Prints a remark that is neither a pass nor a failure."""
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
        """Prints the counts. Returns 1 if a check failed or none passed, else 0."""
        total = sum(self.counts.values())
        print(
            f"\n{total} checks: {self.counts['ok']} passed, {self.counts['FAIL']} failed, {self.counts['skip']} skipped"
        )
        for reason, count in sorted(self.skipped.items()):
            print(f"  skipped {count}: {reason}")
        return 1 if self.counts["FAIL"] or not self.counts["ok"] else 0
