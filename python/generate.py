"""Writes trainyard/documents.py from the JSON Schemas that `trainyard schemas` prints.

    python generate.py [--check] [--schemas DIR]

Documents are classes with typed attributes. What is also written by hand (jobs, fleets, queues) are dictionaries.
"""

from __future__ import annotations

import argparse
import json
import keyword
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

TARGET = Path(__file__).parent / "trainyard" / "documents.py"

# The files of schemas, and the names of what they hold.
DOCUMENTS = {
    "plan": "Plan",
    "what-if": "WhatIf",
    "explanation": "Explanation",
    "campaign": "Campaign",
    "launch": "Launch",
    "validation": "Validation",
    "refit": "Refit",
    "replay": "Replay",
    "queue": "QueueSchedule",
    "fleet": "FleetSchedule",
}
WRITTEN = {"job": "Job", "fleet-file": "Fleet", "queue-file": "Queue"}

# What documents can do besides.
BASES = {"Plan": "PlanViews", "WhatIf": "SweepViews", "Validation": "RowsViews"}

HEAD = '''"""The documents that commands return, and the dictionaries that they take.

Written by generate.py from the schemas that `trainyard schemas` prints. Do not edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Union

from trainyard._document import Document
from trainyard._views import PlanViews, RowsViews, SweepViews
'''


class Definitions:
    """All definitions of all schemas, each structure once, under a name that no other has."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.bodies: dict[str, Schema] = {}
        self.words: set[str] = set()

    def add(self, schema: Schema, title: str) -> str:
        """Adds a schema with all that it refers to, and returns its name."""
        local: dict[str, Schema] = schema.get("$defs", {})
        renamed: dict[str, str] = {}

        def resolved(body: Any) -> Any:
            """Replaces references by the names that definitions have here."""
            if isinstance(body, list):
                return [resolved(part) for part in body]
            if not isinstance(body, dict):
                return body
            if "$ref" in body:
                return {**body, "$ref": define(body["$ref"].rsplit("/", 1)[1])}
            return {key: resolved(part) for key, part in body.items() if key not in ("$defs", "$schema", "title")}

        def define(name: str) -> str:
            if name not in renamed:
                # Set before the body is resolved, because definitions may refer to themselves.
                renamed[name] = name
                renamed[name] = self.named(name, resolved(local[name]))
            return renamed[name]

        return self.named(title, resolved(schema))

    def named(self, name: str, body: Schema) -> str:
        key = json.dumps(body, sort_keys=True)
        if key not in self.names:
            number = 2
            base = name.rstrip("0123456789") or name
            own = base
            while own in self.bodies:
                own = f"{base}{number}"
                number += 1
            self.names[key] = own
            self.bodies[own] = body
        return self.names[key]

    def reached(self, name: str) -> list[str]:
        """Returns the names of all that a definition refers to, and its own."""
        found: list[str] = []
        waiting = [name]
        while waiting:
            own = waiting.pop()
            if own in found:
                continue
            found.append(own)
            waiting.extend(references(self.bodies[own]))
        return found


def references(body: Any) -> list[str]:
    if isinstance(body, list):
        return [name for part in body for name in references(part)]
    if isinstance(body, dict):
        own = [body["$ref"]] if isinstance(body.get("$ref"), str) else []
        return own + [name for part in body.values() for name in references(part)]
    return []


def is_object(body: Schema) -> bool:
    return "properties" in body


def alternatives(body: Schema) -> list[Schema]:
    return body.get("anyOf") or body.get("oneOf") or []


def chosen_by_hand(definitions: Definitions, roots: list[str]) -> set[str]:
    """Returns what is a dictionary: what people write, and what could not be told from another object."""
    written = {name for root in roots for name in definitions.reached(root)}
    for body in list(definitions.bodies.values()):
        for part in every(body):
            objects = [one["$ref"] for one in alternatives(part) if "$ref" in one]
            objects = [name for name in objects if is_object(definitions.bodies[name])]
            if len(objects) > 1:
                written.update(name for own in objects for name in definitions.reached(own))
    return written


def every(body: Any) -> list[Schema]:
    if isinstance(body, list):
        return [part for one in body for part in every(one)]
    if isinstance(body, dict):
        return [body] + [part for one in body.values() for part in every(one)]
    return []


def literal(values: list[Any]) -> str:
    return f"Literal[{', '.join(json.dumps(value) for value in values)}]"


SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def typed(body: Schema) -> str:
    """Returns the type of a value."""
    if body is True or body == {}:
        return "Any"
    if "$ref" in body:
        return str(body["$ref"])
    if "const" in body:
        return literal([body["const"]])
    if "enum" in body:
        return literal(body["enum"])
    if alternatives(body):
        return union([typed(part) for part in alternatives(body)])
    kinds = body.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return union([of_kind(kind, body) for kind in kinds]) if kinds else "Any"


def of_kind(kind: str, body: Schema) -> str:
    if kind == "array":
        return f"list[{typed(body.get('items', {}))}]"
    if kind == "object":
        if "properties" in body:
            return "dict[str, Any]"
        return f"dict[str, {typed(body.get('additionalProperties', {}))}]"
    return SIMPLE[kind]


def union(kinds: list[str]) -> str:
    literals = [kind[8:-1] for kind in kinds if kind.startswith("Literal[")]
    others = list(dict.fromkeys(kind for kind in kinds if not kind.startswith("Literal[")))
    merged = [f"Literal[{', '.join(literals)}]"] if literals else []
    none = [kind for kind in others if kind == "None"]
    return " | ".join(merged + [kind for kind in others if kind != "None"] + none)


def docs(text: str | None, indent: str) -> str:
    if not text:
        return ""
    words = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
    words = words + " " if words.endswith('"') else words
    lines = textwrap.wrap(words, 116 - len(indent), break_on_hyphens=False)
    if len(lines) == 1 and len(lines[0]) + len(indent) <= 114:
        return f'{indent}"""{lines[0]}"""\n'
    lines[0] = f'"""{lines[0]}'
    return "".join(f"{indent}{line}\n" for line in lines) + f'{indent}"""\n'


def field_docs(text: str | None) -> str:
    return docs(text, "    ")


def default(body: Schema, kind: str) -> str | None:
    """Returns what a field is when a document leaves it out."""
    if body.get("default") is not None and isinstance(body["default"], (bool, int, float, str)):
        return repr(body["default"])
    if kind.startswith("list["):
        return "()"
    if kind == "bool":
        return "False"
    return "None"


def document(name: str, body: Schema, schema: str) -> str:
    text = f"class {name}({BASES.get(name, 'Document')}):\n{docs(body.get('description'), '    ')}\n    SCHEMA = {json.dumps(schema)}\n\n"
    for field, about in body["properties"].items():
        text += f"    {field}: {shown(about, field in body.get('required', []))}\n{field_docs(about.get('description'))}"
    return text


def shown(body: Schema, needed: bool) -> str:
    kind = typed(body)
    kind = kind.replace("list[", "Sequence[") if not needed and kind.startswith("list[") else kind
    if needed or kind.endswith("None") or kind == "bool" or kind.startswith("Sequence[") or "default" in body:
        return kind
    return f"{kind} | None"


def attribute(field: str) -> str:
    """Returns the attribute for a field: a word of Python has an underscore behind it."""
    return f"{field}_" if keyword.iskeyword(field) else field


def record(name: str, body: Schema) -> str:
    text = f"@dataclass(frozen=True, kw_only=True)\nclass {name}:\n{docs(body.get('description'), '    ')}\n"
    for field, about in body["properties"].items():
        needed = field in body.get("required", [])
        kind = shown(about, needed)
        given = "" if needed else f" = {default(about, typed(about))}"
        text += f"    {attribute(field)}: {kind}{given}\n{field_docs(about.get('description'))}"
    return text


def dictionary(name: str, body: Schema) -> str:
    total = set(body.get("required", [])) >= set(body["properties"])
    text = f"class {name}(TypedDict{'' if total else ', total=False'}):\n{docs(body.get('description'), '    ')}\n"
    for field, about in body["properties"].items():
        kind = typed(about)
        assert not keyword.iskeyword(field), f"{name} needs the functional form of TypedDict for {field}"
        text += f"    {field}: {kind}\n{field_docs(about.get('description'))}"
    return text


def alias(name: str, body: Schema) -> str:
    kinds = [typed(part) for part in alternatives(body)] or [typed(body)]
    text = union(kinds)
    # Names may be declared further down, and evaluated only by type checkers.
    parts = text if text.startswith("Literal[") and text.endswith("]") else f"Union[{', '.join(split(text))}]"
    if not text.startswith("Literal[") and len(split(text)) == 1:
        parts = text
    about = " ".join((body.get("description") or "").split())
    comment = "".join(f"# {line}\n" for line in textwrap.wrap(about, 116))
    line = f"{name} = {parts}\n"
    if len(line) > 120 and "[" in parts:
        head, inner = parts.split("[", 1)
        line = f"{name} = {head}[\n" + "".join(f"    {part},\n" for part in split(inner[:-1], ", ")) + "]\n"
    return comment + line


def split(text: str, mark: str = " | ") -> list[str]:
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth == 0 and text.startswith(mark, at):
            parts.append(text[start:at])
            start = at + len(mark)
    return [*parts, text[start:]]


def forward(text: str, defined: set[str], names: set[str]) -> str:
    """Quotes the names in an alias that are declared further down."""
    def quote(found: re.Match[str]) -> str:
        word = found.group(0)
        return f'"{word}"' if word in names and word not in defined else word

    return re.sub(r'(?<!["\w-])[A-Z]\w*(?!["\w-])', quote, text)


def schemas(folder: Path | None) -> dict[str, Schema]:
    """Reads the schemas of a folder, or those of the module that is installed."""
    if folder is None:
        with tempfile.TemporaryDirectory() as own:
            # From there, where Python does not take the sources beside this file for what is installed.
            subprocess.run([sys.executable, "-m", "trainyard", "schemas", "--out", own, "-q"], cwd=own, check=True)
            return schemas(Path(own))
    return {name: json.loads((folder / f"{name}.json").read_text("utf-8")) for name in DOCUMENTS | WRITTEN}


def generated(folder: Path | None) -> str:
    read = schemas(folder)
    definitions = Definitions()
    roots = {name: definitions.add(read[name], title) for name, title in (WRITTEN | DOCUMENTS).items()}
    assert roots == WRITTEN | DOCUMENTS, roots
    written = chosen_by_hand(definitions, [roots[name] for name in WRITTEN])
    text, defined = HEAD, {"Document", "Any", "Literal", "Union", "Sequence", "TypedDict"}
    names = set(definitions.bodies)
    files = {title: name for name, title in roots.items()}
    for name, body in sorted(definitions.bodies.items(), key=lambda item: is_object(item[1])):
        if not is_object(body):
            made = alias(name, body)
            head, equals, value = made.rpartition(f"{name} = ")
            made = head + equals + forward(value, defined, names)
            text += ("\n" if "\n#" in made or made.startswith("#") else "") + made
        elif files.get(name) in DOCUMENTS:
            text += "\n\n" + document(name, body, f"trainyard.{files[name]}/1")
        elif name in written:
            text += "\n\n" + dictionary(name, body)
        else:
            text += "\n\n" + record(name, body)
        defined.add(name)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the file is what would be written")
    parser.add_argument("--schemas", type=Path, help="a folder that `trainyard schemas --out` wrote")
    arguments = parser.parse_args()
    text = generated(arguments.schemas)
    if not arguments.check:
        TARGET.write_text(text, "utf-8")
        return 0
    if TARGET.read_text("utf-8") == text:
        return 0
    print(f"{TARGET} is not what the schemas say; `python generate.py` writes it anew", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
