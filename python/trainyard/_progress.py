"""How far a command is: a line that is drawn anew, on a terminal or in a notebook."""

from __future__ import annotations

import logging
import sys
from types import TracebackType
from typing import Any

_LOG = logging.getLogger("trainyard")


class Progress:
    """Hears what a command says while it works."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self._shell = _shell()
        self._shown: Any = None
        self._last = ""

    def hear(self, kind: str, text: str) -> None:
        """Takes what the command says: a note, a warning, or how far it is."""
        if kind == "warning":
            self.warnings.append(text)
        elif kind == "note":
            _LOG.info(text)
        elif text != self._last:
            self._last = text
            self._draw(text)

    def _draw(self, text: str) -> None:
        if self._shell is not None:
            import IPython.display  # type: ignore[import-not-found, unused-ignore]

            handle: Any = IPython.display.DisplayHandle
            content = {"text/plain": text}
            if self._shown is None:
                self._shown = handle()
                self._shown.display(content, raw=True)
            else:
                self._shown.update(content, raw=True)
        elif sys.stderr is not None and sys.stderr.isatty():
            self._shown = True
            # Back to the start of the line, and delete it.
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._shown is not None and self._last:
            self._draw("")


def _shell() -> Any:
    """Returns the shell of the notebook in which this runs, if it is one."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell if shell is not None and hasattr(shell, "kernel") else None
