"""One forward pass of a module of PyTorch over tensors without values, operator by operator."""

from __future__ import annotations

import importlib
import logging
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from trainyard._units import units
from trainyard.errors import InvalidInput, TrainyardWarning

# The functions that are recorded as one operator, in place of those that they consist of.
_FUNCTIONS = ("scaled_dot_product_attention", "dropout", "rms_norm", "cross_entropy")

# Modules of other libraries that are one kernel everywhere, although they are written as several.
_ACTIVATIONS = (
    "NewGELUActivation",
    "FastGELUActivation",
    "QuickGELUActivation",
    "GELUTanh",
    "PytorchGELUTanh",
    "AccurateGELUActivation",
    "MishActivation",
)

# While functions of torch are replaced, no other thread may be.
_REPLACING = threading.RLock()

HINT = (
    "describe the model by hand, with operators that Trainyard knows (docs/models.md: family = \"layers\" or \"blocks\"), or "
    "name it in memory_bound=(…) if it costs what reading and writing its tensors does"
)


@dataclass(frozen=True)
class Event:
    """Something that was computed."""

    # An operator of ATen, or a function of `torch.nn.functional`.
    name: str
    # The operator's own object, or none.
    operator: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    # The path of the module that computed it.
    module: str
    # The layer that it belongs to, and which of the calls of it; none outside layers.
    unit: tuple[str, int] | None


@dataclass
class Tape:
    """What was computed, in order."""

    events: list[Event] = field(default_factory=list[Event])
    # Names and tensors of the parameters, those that are shared once.
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    inputs: list[Any] = field(default_factory=list[Any])
    outputs: list[Any] = field(default_factory=list[Any])


def tensors(value: object) -> Iterator[Any]:
    """Returns the tensors in arguments or results."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for own in cast("Mapping[object, object]", value).values():
            yield from tensors(own)
    elif isinstance(value, (list, tuple)):
        for own in cast("list[object]", value):
            yield from tensors(own)


class _Recorder:
    """Listens to operators, functions and modules."""

    def __init__(self, tape: Tape, names: list[str]) -> None:
        self.tape = tape
        self.units = set(names)
        self.calls: dict[str, int] = {}
        # Paths of the modules that are being called, and the layers among them.
        self.path: list[str] = [""]
        self.layers: list[tuple[str, int]] = []
        # How many functions and modules that are recorded as one are being called.
        self.paused = 0

    def heard(self, name: str, operator: Any, args: Any, kwargs: Any, result: Any) -> None:
        if self.paused == 0:
            unit = self.layers[0] if self.layers else None
            self.tape.events.append(Event(name, operator, tuple(args), dict(kwargs), result, self.path[-1], unit))

    def mode(self) -> Any:
        """Returns what hears of every operator of ATen."""
        base: Any = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode
        heard = self.heard

        class Mode(base):  # type: ignore[misc]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = func(*args, **(kwargs or {}))
                name = f"{func.namespace}.{func._schema.name.split('::')[-1]}"
                heard(name, func, args, kwargs or {}, result)
                return result

        return Mode()

    def whole(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that is recorded as one operator."""

        def recorded(*args: Any, **kwargs: Any) -> Any:
            self.paused += 1
            try:
                result = function(*args, **kwargs)
            finally:
                self.paused -= 1
            self.heard(name, None, args, kwargs, result)
            return result

        return recorded

    def enter(self, path: str, one: str | None) -> Callable[..., None]:
        def entered(*_: Any) -> None:
            self.path.append(path)
            if path in self.units:
                self.calls[path] = self.calls.get(path, 0) + 1
                self.layers.append((path, self.calls[path]))
            self.paused += one is not None

        return entered

    def leave(self, path: str, one: str | None) -> Callable[..., None]:
        def left(module: Any, args: Any, result: Any) -> None:
            self.paused -= one is not None
            if one is not None:
                self.heard(one, None, (*args, module, list(module.parameters())), {}, result)
            self.path.pop()
            if path in self.units:
                self.layers.pop()

        return left


def _one_operator(module: Any) -> str | None:
    """Returns the operator that a module is, although it is written as several."""
    kind = type(module).__name__
    own = dict(module.named_parameters())
    if kind in ("LSTM", "GRU") and module.bias and not module.proj_size:
        return f"module.{kind.lower()}"
    if kind.endswith("RMSNorm") and list(own) == ["weight"] and own["weight"].dim() == 1:
        return "module.rms_norm"
    return "module.gelu" if kind in _ACTIVATIONS and not own else None


@contextmanager
def _listening(module: Any, recorder: _Recorder) -> Generator[None]:
    """Has functions and modules tell the recorder of themselves."""
    import torch.nn.functional as functional

    # Shapes that do not fit are told in an exception, which says it all.
    log = logging.getLogger("torch._subclasses.fake_tensor")
    level = log.level
    with _REPLACING:
        own = {name: getattr(functional, name) for name in _FUNCTIONS if hasattr(functional, name)}
        hooks: list[Any] = []
        for path, inner in module.named_modules():
            one = _one_operator(inner)
            hooks.append(inner.register_forward_pre_hook(recorder.enter(path, one)))
            hooks.append(inner.register_forward_hook(recorder.leave(path, one)))
        try:
            log.setLevel(logging.CRITICAL)
            for name, function in own.items():
                setattr(functional, name, recorder.whole(f"functional.{name}", function))
            yield
        finally:
            log.setLevel(level)
            for name, function in own.items():
                setattr(functional, name, function)
            for hook in hooks:
                hook.remove()


def _without_values(mode: Any, known: dict[int, Any], value: object) -> Any:
    """Returns the same value with tensors that have shapes and no memory."""
    import torch

    def fake(tensor: Any) -> Any:
        if id(tensor) not in known:
            with mode:
                shape = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cpu")
            known[id(tensor)] = shape.requires_grad_(tensor.requires_grad)
        return known[id(tensor)]

    if isinstance(value, torch.Tensor):
        return fake(value)
    if isinstance(value, Mapping):
        named = cast("Mapping[object, object]", value)
        return {key: _without_values(mode, known, own) for key, own in named.items()}
    if isinstance(value, (list, tuple)):
        parts = [_without_values(mode, known, own) for own in cast("list[object]", value)]
        return tuple(parts) if isinstance(value, tuple) else parts
    return value


def recorded(module: Any, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Tape:
    """Returns what a forward pass of the module computes, in training."""
    was_training = {inner: inner.training for inner in module.modules()}
    module.train()
    try:
        return _forward(module, args, kwargs)
    except Exception as error:
        if not _asks_for_values(error):
            raise
        # What depends on chance, as layers that are dropped, does so in training only.
        module.eval()
        return _forward(module, args, kwargs)
    finally:
        for inner, training in was_training.items():
            inner.training = training


def _asks_for_values(error: Exception) -> bool:
    return type(error).__name__ in ("DataDependentOutputException", "GuardOnDataDependentSymNode", "DynamicOutputShapeException")


def _forward(module: Any, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Tape:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.func import functional_call

    mode: Any = FakeTensorMode(allow_non_fake_inputs=True)
    known: dict[int, Any] = {}
    named = dict(module.named_parameters(remove_duplicate=False))
    held = {**named, **dict(module.named_buffers(remove_duplicate=False))}
    held = {name: _without_values(mode, known, tensor) for name, tensor in held.items()}
    tape = Tape(parameters={name: held[name] for name, _ in module.named_parameters()})
    own_args, own_kwargs = _without_values(mode, known, args), _without_values(mode, known, dict(kwargs))
    tape.inputs = [*tensors(own_args), *tensors(own_kwargs)]
    recorder = _Recorder(tape, units(module))
    with _listening(module, recorder), mode, recorder.mode():
        try:
            result = functional_call(module, held, own_args, own_kwargs)
        except Exception as error:
            if _asks_for_values(error):
                error.__dict__["trainyard_path"] = recorder.path[-1]
            raise
    tape.outputs = list(tensors(_fields(result)))
    return tape


def _fields(result: Any) -> Any:
    """Returns an output as it is, or the values of one that is an object with fields."""
    found = list(tensors(result))
    if found or not hasattr(result, "__dict__"):
        return found
    return [getattr(result, name) for name in vars(cast("object", result))]


def traced(
    module: Any,
    example_inputs: object,
    example_kwargs: Mapping[str, object],
    name: str | None,
    batch_size: int | None,
    memory_bound: tuple[str, ...],
) -> dict[str, Any]:
    """Returns a module as the fields of a model file."""
    from trainyard._layers import described

    if not hasattr(module, "named_modules"):
        raise InvalidInput(
            f"a module of PyTorch is read, but this is a {type(module).__name__}", field="module", hint="give a torch.nn.Module"
        )
    one = not isinstance(example_inputs, (tuple, list))
    given = (example_inputs,) if one else tuple(cast("list[object]", example_inputs))
    try:
        tape = recorded(module, given, example_kwargs)
    except InvalidInput:
        raise
    except Exception as error:
        if _asks_for_values(error):
            raise InvalidInput(
                f"what is computed depends on values of tensors: {error}",
                field="module",
                value=str(error.__dict__.get("trainyard_path", "")) or type(module).__name__,
                hint="take a path that depends on shapes alone, or describe the model by hand (docs/models.md)",
            ) from error
        raise InvalidInput(
            f"the forward pass of {type(module).__name__} fails on these inputs: {type(error).__name__}: {error}",
            field="example_inputs",
            hint="call the module with them: what works there is read here, with shapes in place of values",
        ) from error
    _warn_of_frozen(tape)
    return described(tape, name or type(module).__name__, batch_size, memory_bound)


def _warn_of_frozen(tape: Tape) -> None:
    sizes = [(int(own.numel()), bool(own.requires_grad)) for own in tape.parameters.values()]
    frozen = sum(size for size, trained in sizes if not trained)
    if frozen:
        every = sum(size for size, _ in sizes)
        text = f"{frozen:,} of {every:,} parameters are not trained in the module, but planned as if they were"
        warnings.warn(text, TrainyardWarning, stacklevel=4)


def lightning_inputs(module: Any) -> object:
    """Returns the inputs that a LightningModule names as its example."""
    found: object = getattr(module, "example_input_array", None)
    if found is None:
        raise InvalidInput(
            "there are no inputs to read the module with",
            field="example_inputs",
            hint="give them, or set self.example_input_array in the LightningModule",
        )
    return found
