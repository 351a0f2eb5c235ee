"""Arguments of Python to words of the command line, and what comes back to documents and exceptions."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar, Union, cast

from trainyard import _native
from trainyard._document import Document
from trainyard._progress import Progress
from trainyard.errors import TrainyardWarning, of_exit_code

Path = Union[str, "os.PathLike[str]"]
# What a flag may be given.
Value = Union[str, int, float, bool, timedelta, "os.PathLike[str]", Iterable[object], Mapping[str, object], None]

Kind = TypeVar("Kind", bound=Document)


class Given:
    """The words of a command, and the texts that stand in place of files."""

    def __init__(self, command: str) -> None:
        self.words: list[str] = [command]
        self.texts: dict[str, str] = {}

    def file(self, source: Path | Mapping[str, Any] | Document, name: str) -> str:
        """Returns a path; a dictionary or a document gets the name of a file that is not there."""
        if isinstance(source, Document):
            text = source.to_json()
        elif isinstance(source, Mapping):
            text = json.dumps(plain(self.job(source)))
        else:
            return os.fspath(source)
        name = f"<{name.replace('.', '>.', 1)}"
        if name in self.texts:
            name = f"<other {name[1:]}"
        self.texts[name] = text
        return name

    def model(self, model: Mapping[str, Any]) -> str:
        """Returns the name of a model's file: with a family it is one of Trainyard, without one a config.json."""
        return self.file(model, "model.toml" if "family" in model else "config.json")

    def job(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a job whose model, if it was read from a module, stands in a file."""
        from trainyard._model import ModelDescription

        model = job.get("model")
        if not isinstance(model, ModelDescription):
            return dict(job)
        return {**job, "model": {"file" if "family" in model else "config": self.model(model)}}

    def positional(self, source: Path | Mapping[str, Any] | Document | None, name: str) -> Given:
        """Adds a file without a flag."""
        if source is not None:
            self.words.append(self.file(source, name))
        return self

    def flags(self, **values: Value) -> Given:
        """Adds flags, in the names of Python; those that are none or false are left out."""
        for name, given in values.items():
            value = cast("Value", scalar(given))
            flag = f"--{name.strip('_').replace('_', '-')}"
            if value is True:
                self.words.append(flag)
            elif value is not None and value is not False:
                # With "=", so that a value that starts with a hyphen is no flag.
                self.words.extend(f"{flag}={word}" for word in words_of(value))
        return self


def words_of(value: Value) -> list[str]:
    """Returns the words for a flag, once for each time it is repeated."""
    if isinstance(value, Mapping):
        return [f"{key}={joined(own)}" for key, own in cast("Mapping[object, object]", value).items()]
    if isinstance(value, (list, tuple)):
        return [word(own) for own in cast("list[object]", value)]
    return [word(value)]


def joined(value: object) -> str:
    """Returns the values of a key: one, or all of them with commas."""
    if is_several(value):
        return ",".join(word(own) for own in cast("Iterable[object]", value))
    return word(value)


def is_several(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, Mapping))


def scalar(value: object) -> object:
    """Returns what a number or a truth value of numpy is in Python, and anything else as it is."""
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "shape", None) == () else value


def word(value: object) -> str:
    value = scalar(value)
    if isinstance(value, timedelta):
        return f"{value.total_seconds()!r}s"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, os.PathLike):
        return os.fspath(cast("os.PathLike[str]", value))
    return repr(value) if isinstance(value, float) else str(value)


def plain(value: object) -> object:
    """Returns a value as JSON has it: numbers of numpy, paths and times too."""
    if isinstance(value, Mapping):
        return {str(key): plain(own) for key, own in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (str, int, float)) or value is None:
        return value
    if isinstance(value, (timedelta, os.PathLike)):
        return word(cast("object", value))
    if isinstance(value, Iterable):
        return [plain(own) for own in cast("Iterable[object]", value)]
    item = getattr(value, "item", None)
    return plain(item()) if callable(item) else str(value)


def printed(given: Given, history: Path | None, *, verbose: bool = False, form: str | None = "json") -> str:
    """Calls the command, and returns what it prints."""
    words = [*given.words, f"--history={os.fspath(history) if history is not None else 'off'}"]
    words += [f"--format={form}"] if form else []
    words += ["--verbose"] if verbose else []
    with Progress() as progress:
        text, refusal = _native.call(words, given.texts, progress.hear)
    for warning in progress.warnings:
        warnings.warn(warning, TrainyardWarning, stacklevel=4)
    if refusal is not None:
        raise error(cast("dict[str, Any]", refusal), text)
    return text


def document(given: Given, history: Path | None = None) -> Document:
    """Calls the command, and returns its document."""
    return document_of(printed(given, history))


def expected(found: Document, kind: type[Kind], advice: str) -> Kind:
    """Returns a document if it is of this kind."""
    if not isinstance(found, kind):
        raise TypeError(f"this is answered with a {type(found).__name__}; {advice}")
    return found


def document_of(text: str) -> Document:
    """Returns the document of a text, by its schema."""
    from trainyard import documents

    kinds = {kind.SCHEMA: kind for kind in vars(documents).values() if isinstance(kind, type) and issubclass(kind, Document)}
    # The schema is the first field: the whole need not be read to know it.
    head = text[: text.find(",")] if "," in text else text
    schema = head.split('"')[3] if head.count('"') >= 4 else ""
    return kinds[schema](text)


def error(facts: dict[str, Any], text: str) -> Exception:
    """Returns the exception for a refusal."""
    kind = of_exit_code(facts["exit_code"])
    found = document_of(text) if text.startswith("{") else None
    field = facts["field"]
    # A flag is a keyword argument here.
    facts["field"] = field[2:].replace("-", "_") if field and field.startswith("--") else field
    causes = tuple(facts.pop("causes"))
    return kind(facts.pop("message"), causes=causes, document=found, **facts)
