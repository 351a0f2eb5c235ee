"""From operators to the layers of a model file: what goes together, what goes on to the next, what is alike."""

from __future__ import annotations

import math
from typing import Any

from trainyard._operators import PRODUCTS, Layer, Reader, loss_of
from trainyard._trace import Tape


def described(tape: Tape, name: str, batch_size: int | None, memory_bound: tuple[str, ...]) -> dict[str, Any]:
    """Returns a tape as the fields of a model file."""
    batch = batch_size or next((int(own.shape[0]) for own in tape.inputs if own.dim() > 0), 1)
    reader = Reader(tape, batch, memory_bound)
    reader.read()
    _end(reader)
    groups = _merged(reader.layers)
    layers = [_layer(reader, group) for group in groups]
    if len(layers) == 1:
        layers = _split_loss(layers[0])
    last = {own: size for index in groups[-1] for own, size in reader.layers[index].reused.items()}
    first = {own for index in groups[0] for own in reader.layers[index].claimed}
    tied = sum(size for own, size in last.items() if own in first)
    if tied and len(groups) > 1:
        layers[-1]["tied"] = tied
    return {"name": name, "family": "traced", "input": _sample(tape, batch), "traced": _repeated(layers)}


def _end(reader: Reader) -> None:
    """Adds the loss where there is none, and parameters that nothing used."""
    layer = reader.layers[-1]
    scores = [own for own in reader.tape.outputs if own.is_floating_point() and own.dim() > 1 and reader.is_trained(own)]
    if scores and not reader.has_loss:
        classes = int(scores[0].shape[1] if scores[0].dim() > 3 else scores[0].shape[-1])
        layer.operators.append(loss_of(reader, scores[0], classes))
    if reader.unclaimed:
        layer.operators.append({"weights": {"values": sum(reader.unclaimed.values()), "tensors": len(reader.unclaimed)}})


def _merged(layers: list[Layer]) -> list[list[int]]:
    """Returns which layers become one: what multiplies nothing and looks nothing up goes with the layer before it; what has
    weights outside units, as a last normalisation, with the one behind it.
    """
    groups: list[list[int]] = []
    waiting: list[int] = []
    for index, layer in enumerate(layers):
        if layer.has((*PRODUCTS, "embedding")):
            groups.append([*waiting, index])
            waiting = []
        elif groups and layer.unit is not None and not waiting:
            groups[-1].append(index)
        else:
            waiting.append(index)
    if groups:
        groups[-1] += waiting
    return groups or [waiting]


def _layer(reader: Reader, group: list[int]) -> dict[str, Any]:
    """Returns a layer, with what goes on from it to the next ones."""
    last = group[-1]
    past = [value for value in reader.trained.values() if value.made <= last < value.used]
    made = sum(value.elements for value in past if value.made >= group[0])
    named = [reader.layers[index] for index in group]
    name = next((layer.name for layer in named if layer.has(PRODUCTS) and layer.name), named[0].name) or "model"
    operators = [operator for layer in named for operator in layer.operators]
    output = max(sum(value.elements for value in past), 1)
    return {"name": name, "output": output, "made": min(max(made, 1), output), "operators": operators}


def _split_loss(layer: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns a model that is one layer as two: the loss by itself."""
    losses = [own for own in layer["operators"] if "cross_entropy" in own]
    others = [own for own in layer["operators"] if "cross_entropy" not in own]
    rows = sum(own["cross_entropy"]["rows"] * own["cross_entropy"]["classes"] for own in losses) or 1
    body = {**layer, "output": rows, "made": rows, "operators": others}
    return [body, {"name": "loss", "output": 1, "made": 1, "operators": losses}]


def _repeated(layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns layers of which those that are alike and follow one another are written once."""
    found: list[dict[str, Any]] = []
    for layer in layers:
        before = found[-1] if found else {}
        if all(before.get(own) == layer.get(own) for own in ("output", "made", "tied", "operators")):
            before["repeat"] = before.get("repeat", 1) + 1
            before["name"] = f"{before['name'].split('…')[0]}…{layer['name'].rsplit('.', 1)[-1]}"
        else:
            found.append(dict(layer))
    return found


def _sample(tape: Tape, batch: int) -> dict[str, int]:
    """Returns what one sample is, from the first of the inputs."""
    for own in tape.inputs:
        if own.dim() == 0:
            continue
        shape = [int(size) for size in (own.shape[1:] if own.shape[0] == batch else own.shape)]
        if not own.is_floating_point():
            return {"tokens": max(math.prod(shape), 1)}
        if len(shape) == 2:
            return {"tokens": shape[0], "features": shape[1]}
        if len(shape) == 3:
            return dict(zip(("channels", "height", "width"), shape, strict=True))
        if len(shape) == 4:
            return dict(zip(("channels", "depth", "height", "width"), shape, strict=True))
        return {"features": max(math.prod(shape), 1)}
    return {"features": 1}
