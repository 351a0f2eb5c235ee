"""What all documents have in common."""

from __future__ import annotations

import dataclasses
import json
import keyword
import os
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from trainyard import _native

Own = TypeVar("Own", bound="Document")


class Document:
    """What a command returned. Attributes are read when they are first asked for; nothing can be changed."""

    SCHEMA: ClassVar[str] = ""
    _text: str

    def __init__(self, text: str) -> None:
        """Creates the document that a text in JSON describes."""
        object.__setattr__(self, "_text", text)

    def to_json(self) -> str:
        """Returns the bytes that the program prints for the same with `--format json`."""
        return self._text

    def to_dict(self) -> dict[str, Any]:
        """Returns the document as dictionaries, lists, texts and numbers."""
        return typing.cast("dict[str, Any]", json.loads(self._text))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the document into a file, which the program reads."""
        Path(path).write_text(self._text, "utf-8", newline="\n")

    @classmethod
    def load(cls: type[Own], path: str | os.PathLike[str]) -> Own:
        """Reads a document that the program or `save` has written."""
        return cls.from_json(Path(path).read_text("utf-8-sig"))

    @classmethod
    def from_json(cls: type[Own], text: str) -> Own:
        """Reads a document from its text; raises ValueError if it is another."""
        found: Any = json.loads(text)
        schema: object = typing.cast("dict[str, Any]", found).get("schema") if isinstance(found, dict) else None
        if schema != cls.SCHEMA:
            raise ValueError(f"`schema` is {schema!r}, but {cls.__name__} reads {cls.SCHEMA!r}")
        return cls(text)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Document) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._text,)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"documents cannot be changed: `{name}`")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.SCHEMA}: {len(self._text):,} bytes>"

    def __str__(self) -> str:
        """Returns what the program prints for people."""
        return _native.shown(self._text, "page") or repr(self)

    def _repr_html_(self) -> str | None:
        """Returns what a notebook shows."""
        return _native.shown(self._text, "html")

    def to_svg(self) -> str:
        """Returns the picture of the document; raises ValueError where it has none."""
        return drawn(self._text, "svg", type(self).__name__)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            kinds = hints(type(self))
            if name.startswith("_") or name not in kinds:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            values = self.__dict__.get("_values")
            if values is None:
                values = json.loads(self._text)
                object.__setattr__(self, "_values", values)
            kind = kinds[name]
            made = decoded(kind, values[name]) if name in values else absent(kind)
            object.__setattr__(self, name, made)
            return made

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *hints(type(self))})


def drawn(text: str, form: str, what: str) -> str:
    """Returns a document in a form that is a picture."""
    found = _native.shown(text, form)
    if found is None:
        raise ValueError(f"this {what} has nothing to draw")
    return found


_HINTS: dict[type, dict[str, Any]] = {}


def hints(owner: type) -> dict[str, Any]:
    """Returns the types of the attributes of a class."""
    if owner not in _HINTS:
        found = typing.get_type_hints(owner)
        _HINTS[owner] = {name: kind for name, kind in found.items() if typing.get_origin(kind) is not ClassVar}
        _HINTS[owner].pop("_text", None)
        _HINTS[owner].pop("SCHEMA", None)
    return _HINTS[owner]


def absent(kind: Any) -> Any:
    """Returns the value of an attribute that a document leaves out."""
    if kind is bool:
        return False
    return () if "Sequence" in str(typing.get_origin(kind)) else None


def decoded(kind: Any, value: Any) -> Any:
    """Returns a value of a document in the types that it is declared with."""
    if isinstance(value, dict):
        fields = typing.cast("dict[str, Any]", value)
        for part in parts(kind):
            if dataclasses.is_dataclass(part) and isinstance(part, type):
                kinds = hints(part)
                named = {f"{name}_" if keyword.iskeyword(name) else name: own for name, own in fields.items()}
                return part(**{name: decoded(kinds[name], own) for name, own in named.items()})
            if typing.get_origin(part) is dict:
                inner = typing.get_args(part)[1]
                return {name: decoded(inner, own) for name, own in fields.items()}
        return fields
    if isinstance(value, list):
        values = typing.cast("Sequence[Any]", value)
        for part in parts(kind):
            inner = typing.get_args(part)
            if len(inner) == 1:
                return [decoded(inner[0], own) for own in values]
        return values
    return value


def parts(kind: Any) -> tuple[Any, ...]:
    """Returns the types of which a value may be."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return typing.get_args(kind)
    return (kind,)
