"""What commands raise, and what they warn of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainyard._document import Document


class TrainyardError(Exception):
    """A command failed: the message says why, and `hint` what to do about it."""

    def __init__(
        self,
        message: str,
        *,
        causes: tuple[str, ...] = (),
        hint: str | None = None,
        field: str | None = None,
        value: str | None = None,
        allowed: str | None = None,
        exit_code: int = 1,
        document: Document | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.causes = causes
        """Why, from the outside in."""
        self.hint = hint
        """What may be done about it."""
        self.field = field
        """The field of a file or a dictionary, or the argument, that is wrong."""
        self.value = value
        """What is there."""
        self.allowed = allowed
        """What may be there."""
        self.exit_code = exit_code
        """The exit code of the program for the same."""
        self.document = document
        """What was found all the same: the plan that comes nearest, where none meets the deadline or the budget."""

    def __str__(self) -> str:
        lines = [self.message, *(f"  caused by: {cause}" for cause in self.causes)]
        return "\n".join([*lines, f"hint: {self.hint}"] if self.hint else lines)

    def __reduce__(self) -> tuple[object, ...]:
        facts = {key: value for key, value in self.__dict__.items() if key != "message"}
        return _again, (type(self), self.message, facts)


class InvalidInput(TrainyardError, ValueError):
    """An argument, or a file, is wrong."""


class NoPlan(TrainyardError):
    """No plan is possible within the limits."""


class MissedGoal(TrainyardError):
    """There is a plan, but none within the deadline or the budget; `document` has the one that comes nearest."""


class Interrupted(TrainyardError):
    """The command was stopped before it ended."""


class TrainyardWarning(UserWarning):
    """What a result should not be read without."""


def _again(kind: type[TrainyardError], message: str, facts: dict[str, object]) -> TrainyardError:
    error = kind(message)
    error.__dict__.update(facts)
    return error


_KINDS: dict[int, type[TrainyardError]] = {2: InvalidInput, 3: NoPlan, 4: MissedGoal, 5: Interrupted}


def of_exit_code(code: int) -> type[TrainyardError]:
    """Returns the exception for an exit code of the program."""
    return _KINDS.get(code, TrainyardError)
