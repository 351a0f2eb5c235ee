"""Models as `plan` and `what_if` take them, read from modules of PyTorch and configurations of transformers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as File
from typing import Any, cast

from trainyard._call import Given, Path, plain, printed
from trainyard._native import toml_of


class ModelDescription(Mapping[str, Any]):
    """A model: what `plan(model=…)`, `what_if(model=…)` and the `model` of a job take. A mapping with the fields of a model
    file, or of a `config.json`.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields: dict[str, Any] = json.loads(json.dumps(plain(fields)))
        self._counted: dict[str, Any] | None = None

    def _counts(self) -> dict[str, Any]:
        """Asks the program, which alone says what a model costs."""
        counted = self._counted
        if counted is None:
            given = Given("show").positional("models", "")
            given.words.append(given.model(self))
            counted = self._counted = dict(json.loads(printed(given, None)))
        return counted

    @property
    def name(self) -> str:
        """What plans call it."""
        return str(self._counts()["model"]["name"])

    @property
    def parameters(self) -> int:
        """Trained values; those that several layers share count once."""
        return int(self._counts()["parameters"])

    @property
    def forward_flops(self) -> float:
        """Arithmetic of matrix products, convolutions and attention in a forward pass over one sample."""
        return float(self._counts()["forward_flops"])

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields, as a copy that can be changed."""
        copied: dict[str, Any] = json.loads(json.dumps(self._fields))
        return copied

    def save(self, path: Path) -> None:
        """Writes a model file, which `trainyard plan --model FILE.toml` reads; a configuration is saved as FILE.json."""
        text = json.dumps(self._fields)
        File(path).write_text(toml_of(text) if "family" in self else text, "utf-8", newline="\n")

    def __getitem__(self, key: str) -> Any:
        return self._fields[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        counts = self._counts()
        family = counts["model"]["family"]
        return f"<model {self.name}: {family}, {self.parameters:,} parameters, {self.forward_flops:.4g} FLOPs forward>"


def from_torch(
    module: object,
    example_inputs: object = (),
    example_kwargs: Mapping[str, object] | None = None,
    *,
    name: str | None = None,
    batch_size: int | None = None,
    memory_bound: Sequence[str] = (),
) -> ModelDescription:
    """Reads a module of PyTorch, with inputs of the shapes that it is trained with, the batch first.

    The forward pass runs once on tensors without values, so that a model of any size is read without its memory, also one
    that was built on the device `meta`. Parameters are those of the module, those that are shared once. Softmax
    cross-entropy over the last dimension of the first output is added where the module computes no loss.

    `example_inputs` is a tensor or a tuple of arguments, `example_kwargs` arguments by name. `memory_bound` names operators
    that Trainyard does not know, `("mine::gather",)`, and that are to cost what reading their inputs and writing their
    outputs does. Raises InvalidInput with the operator and the path of the module where something cannot be read.
    """
    from trainyard._trace import traced

    return ModelDescription(traced(module, example_inputs, example_kwargs or {}, name, batch_size, tuple(memory_bound)))


def from_transformers(model: object, *, seq_len: int | None = None) -> ModelDescription:
    """Reads a model of transformers, its configuration, or the name of one that was downloaded or lies in a folder.

    `docs/models.md` lists the types that are read from their configuration, with all that a plan may vary. A model of another
    type is read as `from_torch` reads it, from the module that transformers builds for it without weights; `seq_len` is
    then the number of tokens of a sample.
    """
    from trainyard._transformers import described

    return ModelDescription(described(model, seq_len))


def from_lightning(
    module: object, example_inputs: object = None, *, name: str | None = None, batch_size: int | None = None
) -> ModelDescription:
    """Reads a LightningModule by its `forward`, with its `example_input_array` unless inputs are given."""
    from trainyard._trace import lightning_inputs, traced

    found = lightning_inputs(module) if example_inputs is None else example_inputs
    if isinstance(found, Mapping):
        named = {str(key): value for key, value in cast("Mapping[object, object]", found).items()}
        return ModelDescription(traced(module, (), named, name, batch_size, ()))
    return ModelDescription(traced(module, found, {}, name, batch_size, ()))
