"""From what a forward pass computed to the operators of a model file, with their sizes for one sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from trainyard._trace import HINT, Event, Tape, tensors
from trainyard.errors import InvalidInput

Operators = list[dict[str, Any]]

# What backward needs of a kernel that is bound by memory: its result, or nothing; of the others what they read.
_KEEPS_RESULT = frozenset(
    "_softmax _log_softmax _safe_softmax elu exp reciprocal rsqrt selu sigmoid hardsigmoid sqrt tanh".split()
)
_KEEPS_NOTHING = frozenset(
    """_adaptive_avg_pool2d _adaptive_avg_pool3d _to_copy _upsample_bilinear2d_aa add arange bernoulli cat clone
    col2im constant_pad_nd copy cumsum embedding_dense_backward exponential fill fill_diagonal flip floor gather
    im2col index index_add index_copy index_fill index_put index_select lift_fresh_copy logical_not masked_fill
    masked_scatter mean neg normal pixel_shuffle pixel_unshuffle reflection_pad1d reflection_pad2d
    reflection_pad3d repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d roll round
    rsub scatter scatter_add scatter_reduce select_scatter sign slice_scatter stack sub sum tril triu unfold
    uniform upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d
    upsample_nearest3d upsample_trilinear3d where zero""".split()
)
# Kernels that are no function of single elements and keep what they read.
_KEEPS_INPUT = frozenset(
    """_cdist_forward _embedding_bag _prelu_kernel _weight_norm_interface amax amin aminmax cumprod glu grid_sampler_2d
    grid_sampler_3d hardswish huber_loss linalg_vector_norm log_sigmoid_forward logsumexp max median min nll_loss2d_forward
    nll_loss_forward norm prod smooth_l1_loss soft_margin_loss sort std topk var var_mean""".split()
)
# Of two factors each is kept for the gradient of the other.
_FACTORS = frozenset({"mul", "div"})
_RELU = frozenset({"relu", "hardtanh", "relu6", "clamp", "clamp_min", "threshold"})
# What changes the form of a tensor in place, and computes nothing.
_RESHAPES = frozenset(
    "as_strided_ detach_ lift_fresh requires_grad_ resize_ set_ squeeze_ t_ transpose_ unsqueeze_".split()
)
# What is made without looking at what is given.
_CREATES = frozenset(
    """empty_like full_like new_empty new_empty_strided new_full new_ones new_zeros ones_like rand_like randn_like
    zeros_like""".split()
)
_ORDERS = frozenset({"le", "lt", "ge", "gt", "tril", "triu"})
PRODUCTS = ("linear", "convolution", "attention", "product", "lstm", "gru")


@dataclass
class Layer:
    """What becomes a layer: what one call of a unit computed, or what is between two units."""

    unit: tuple[str, int] | None
    name: str = ""
    operators: Operators = field(default_factory=list[dict[str, Any]])
    # Values that are kept for backward.
    kept: set[int] = field(default_factory=set[int])
    # Parameters of layers before it that it uses too, with their sizes.
    reused: dict[int, int] = field(default_factory=dict[int, int])
    # The parameters that it is the first to use.
    claimed: set[int] = field(default_factory=set[int])

    def has(self, words: Iterable[str]) -> bool:
        return any(word in operator for operator in self.operators for word in words)


@dataclass
class Value:
    """A value that depends on parameters: how large it is, and which layers make and use it."""

    elements: int
    made: int
    used: int


def key(tensor: Any) -> int:
    """Tells values apart: views of one are one."""
    return int(tensor.untyped_storage()._cdata)


class Reader:
    """Goes through a tape."""

    def __init__(self, tape: Tape, batch: int, memory_bound: tuple[str, ...]) -> None:
        self.tape = tape
        self.batch = batch
        self.memory_bound = {name.replace("::", ".") for name in memory_bound}
        self.parameters = {key(tensor): int(tensor.numel()) for tensor in tape.parameters.values()}
        self.unclaimed = dict(self.parameters)
        # Values that depend on parameters, and on the samples of the batch; masks that hide later tokens.
        self.trained: dict[int, Value] = {}
        self.batched: set[int] = {key(tensor) for tensor in tape.inputs}
        self.causal: set[int] = set()
        self.layers: list[Layer] = [Layer(None)]
        self.has_loss = False

    # What is known of tensors.

    def per_sample(self, tensor: Any) -> int:
        """Returns the elements of a tensor that belong to one sample."""
        return self.divided(int(tensor.numel()), tensor)

    def divided(self, count: int, tensor: Any) -> int:
        return -(-count // self.batch) if self.is_batched(tensor) else count

    def is_batched(self, tensor: Any) -> bool:
        first = tensor.dim() > 0 and self.batch > 1 and tensor.shape[0] == self.batch
        return key(tensor) in self.batched or (first and not self.is_parameter(tensor))

    def is_parameter(self, tensor: Any) -> bool:
        return tensor is not None and key(tensor) in self.parameters

    def is_trained(self, tensor: Any) -> bool:
        return tensor.is_floating_point() and (key(tensor) in self.trained or self.is_parameter(tensor))

    def rows(self, tensor: Any, width: int | None = None) -> dict[str, int]:
        """Returns a tensor as rows of its last dimension, or of a width."""
        width = width or (int(tensor.shape[-1]) if tensor.dim() > 0 else 1)
        return {"rows": max(self.per_sample(tensor) // width, 1), "width": width}

    # What is kept, and whose weights are used.

    def keep(self, tensor: Any) -> bool:
        """Returns True if a value need not be kept once more."""
        kept = self.layers[-1].kept
        if key(tensor) in kept or self.is_parameter(tensor):
            return True
        kept.add(key(tensor))
        return False

    def newly_kept(self, found: Iterable[Any]) -> int:
        return sum(self.per_sample(tensor) for tensor in found if tensor.is_floating_point() and not self.keep(tensor))

    def claim(self, tensor: Any) -> int:
        """Returns the size of a parameter if this is its first use."""
        own = key(tensor)
        if own in self.unclaimed:
            self.layers[-1].claimed.add(own)
            return self.unclaimed.pop(own)
        if own not in self.layers[-1].claimed:
            self.layers[-1].reused[own] = self.parameters[own]
        return 0

    def weights(self, found: Iterable[Any]) -> Operators:
        """Returns the parameters among tensors as an operator, those that were not used before."""
        sizes = [size for tensor in found if self.is_parameter(tensor) if (size := self.claim(tensor))]
        return [{"weights": {"values": sum(sizes), "tensors": len(sizes)}}] if sizes else []

    def with_weights(self, word: str, sizes: dict[str, Any], implied: dict[str, tuple[Any, int]]) -> Operators:
        """Returns an operator with its weights, each a tensor with the size that the operator implies. Where they are not as
        large or not new, the operator shares them, and those that are new stand beside.
        """
        given = [(tensor, size) for tensor, size in implied.values() if tensor is not None]
        exact = all(
            self.is_parameter(tensor) and key(tensor) in self.unclaimed and self.parameters[key(tensor)] == size
            for tensor, size in given
        )
        beside = self.weights(tensor for tensor, _ in given)
        if exact and len({key(tensor) for tensor, _ in given}) == len(given):
            return [{word: sizes}]
        return [*beside, {word: {**sizes, "shared": True}}]

    # The way through the tape.

    def read(self) -> None:
        for event in self.tape.events:
            results = list(tensors(event.result))
            given = [*tensors(event.args), *tensors(event.kwargs)]
            base = event.name.split(".", 1)[1]
            if not results or not given or base in _CREATES:
                continue
            self.place(event, given)
            self.use(given)
            self.make(base, given, results)
            operators = self.operators(event, base, given, results)
            layer = self.layers[-1]
            if any(word in operator for operator in operators for word in PRODUCTS) and not layer.has(PRODUCTS):
                layer.name = layer.name if layer.unit else event.module
            layer.operators += operators

    def place(self, event: Event, given: list[Any]) -> None:
        """Begins a new layer where an event belongs to another one."""
        current = self.layers[-1]
        reads = any(self.is_parameter(tensor) for tensor in given)
        if event.unit != current.unit and (event.unit is not None or reads):
            current = Layer(event.unit, event.unit[0] if event.unit else "")
            self.layers.append(current)
        if not current.name and reads:
            current.name = event.module

    def use(self, given: list[Any]) -> None:
        for tensor in given:
            if value := self.trained.get(key(tensor)):
                value.used = len(self.layers) - 1

    def make(self, base: str, given: list[Any], results: list[Any]) -> None:
        """Notes on what the results depend."""
        batched = any(self.is_batched(tensor) for tensor in given)
        trained = any(self.is_trained(tensor) for tensor in given)
        causal = base.rstrip("_") in _ORDERS or any(key(tensor) in self.causal for tensor in given)
        for tensor in results:
            if self.is_parameter(tensor):
                continue
            if batched:
                self.batched.add(key(tensor))
            if trained and tensor.is_floating_point():
                index = len(self.layers) - 1
                value = Value(self.per_sample(tensor), index, index)
                self.trained.setdefault(key(tensor), value)
            elif causal:
                self.causal.add(key(tensor))

    def operators(self, event: Event, base: str, given: list[Any], results: list[Any]) -> Operators:
        """Returns what an event becomes."""
        if base in _RESHAPES or _is_view(event, given, results):
            return []
        if handler := _HANDLERS.get(base):
            return handler(self, event)
        # What is the same in every step, or only says where to look, costs next to nothing.
        if not any(tensor.is_floating_point() for tensor in results) or not any(map(self.is_trained, given)):
            return []
        if base.startswith("_scaled_dot_product"):
            return attention(self, event)
        if base.rstrip("_") in _RELU:
            return [{"relu": self.rows(results[0])}]
        if not self.is_kernel(event, base) and event.name not in self.memory_bound:
            raise InvalidInput(
                f"the operator `{event.name.removeprefix('aten.')}` of module `{event.module or 'the model'}` is none that "
                "Trainyard reads",
                field="module",
                value=event.name.replace(".", "::", 1),
                hint=HINT,
            )
        return self.kernel(event, base.rstrip("_"), given, results)

    def is_kernel(self, event: Event, base: str) -> bool:
        import torch

        named = base.rstrip("_") if not base.startswith("_") else base
        if named in _KEEPS_NOTHING | _KEEPS_RESULT | _KEEPS_INPUT:
            return True
        packet = getattr(torch.ops.aten, named, None) if event.name.startswith("aten.") else None
        overloads = [getattr(packet, name) for name in packet.overloads()] if packet is not None else []
        return any(torch.Tag.pointwise in overload.tags for overload in overloads)

    def kernel(self, event: Event, base: str, given: list[Any], results: list[Any]) -> Operators:
        """Returns a kernel that is bound by memory."""
        floats = {key(tensor): tensor for tensor in given if tensor.is_floating_point()}
        read = sum(self.per_sample(tensor) for tensor in floats.values())
        made = [tensor for tensor in results if tensor.is_floating_point()]
        if base in ("add", "_add") and len(floats) == 2 and all(t.shape == made[0].shape for t in floats.values()):
            return [*self.weights(given), {"add": self.rows(made[0])}]
        masks = sum(self.per_sample(tensor) for tensor in given if str(tensor.dtype) == "torch.bool")
        sizes = {"read": read, "written": sum(map(self.per_sample, made)), "kept": self.newly_kept(self.kept(base, given, made))}
        sizes |= {"masks": masks if base in ("where", "masked_fill") else 0}
        needed = {name: size for name, size in sizes.items() if size or name in ("read", "written")}
        return [*self.weights(given), {"kernel": needed}]

    def kept(self, base: str, given: list[Any], made: list[Any]) -> list[Any]:
        """Returns what backward needs."""
        if base in _KEEPS_RESULT:
            return made
        if base in _KEEPS_NOTHING:
            return []
        if base in _FACTORS:
            return [own for own in given if any(other is not own and self.is_trained(other) for other in given)]
        return given


def _is_view(event: Event, given: list[Any], results: list[Any]) -> bool:
    """Returns True if nothing is computed."""
    own = {key(tensor) for tensor in given}
    if event.operator is None:
        return False
    in_place = event.name.endswith("_") or any(tensor is not None for tensor in [event.kwargs.get("out")])
    return not in_place and all(key(tensor) in own for tensor in results)


# Operators with a word of their own.

Handler = Callable[[Reader, Event], Operators]


def argument(event: Event, index: int, name: str, otherwise: Any = None) -> Any:
    if len(event.args) > index:
        return event.args[index]
    return event.kwargs.get(name, otherwise)


def first_result(event: Event) -> Any:
    return next(tensors(event.result))


def multiplied(reader: Reader, event: Event, left: Any, right: Any, bias: Any = None) -> Operators:
    """Returns (m, k) · (k, n): with weights on one side if one of them is a parameter."""
    (m, k), n = left.shape, right.shape[1]
    if reader.is_parameter(left) and not reader.is_parameter(right):
        left, right, m, n = right, left, n, m
    if not reader.is_parameter(right):
        return [*product(reader, left, right, (1, m, n, k)), *reader.weights([bias] if bias is not None else [])]
    sizes: dict[str, Any] = {"rows": reader.divided(m, left), "inputs": k, "outputs": n}
    sizes |= {"bias": True} if bias is not None else {}
    sizes |= {"input_kept": True} if reader.keep(left) else {}
    return reader.with_weights("linear", sizes, {"weight": (right, k * n), "bias": (bias, n)})


def product(reader: Reader, left: Any, right: Any, sizes: tuple[int, int, int, int]) -> Operators:
    """Returns independent products of activations."""
    batch, m, n, k = sizes
    of_left, of_right = reader.is_batched(left), reader.is_batched(right)
    if of_left or of_right:
        count = reader.batch
        if batch % count == 0:
            batch //= count
        elif of_left:
            m = -(-m // count)
        else:
            n = -(-n // count)
    kept = [own for own, other in ((left, right), (right, left)) if reader.is_trained(other)]
    own = {"batch": batch, "m": m, "n": n, "k": k}
    newly = reader.newly_kept(kept)
    return [*reader.weights((left, right)), {"product": {**own, "kept": newly} if newly else own}]


def batched_product(reader: Reader, event: Event, left: Any, right: Any) -> Operators:
    """Returns products of as many pairs; with weights that are the same for all they are one product."""
    (batch, m, k), n = left.shape, right.shape[2]
    if reader.is_parameter(right) and right.stride(0) == 0:
        sizes: dict[str, Any] = {"rows": reader.divided(batch * m, left), "inputs": k, "outputs": n}
        sizes |= {"input_kept": True} if reader.keep(left) else {}
        return reader.with_weights("linear", sizes, {"weight": (right, k * n)})
    return product(reader, left, right, (batch, m, n, k))


def mm(reader: Reader, event: Event) -> Operators:
    return multiplied(reader, event, event.args[0], event.args[1])


def addmm(reader: Reader, event: Event) -> Operators:
    return multiplied(reader, event, event.args[1], event.args[2], event.args[0])


def bmm(reader: Reader, event: Event) -> Operators:
    return batched_product(reader, event, event.args[0], event.args[1])


def baddbmm(reader: Reader, event: Event) -> Operators:
    return [*reader.weights(event.args[:1]), *batched_product(reader, event, event.args[1], event.args[2])]


def vector_product(reader: Reader, event: Event) -> Operators:
    """Returns a matrix times a vector, or two vectors."""
    left, right = event.args[-2:] if event.name != "aten.addmv" else event.args[1:3]
    matrix = left if left.dim() == 2 else left.unsqueeze(0)
    return multiplied(reader, event, matrix, right.unsqueeze(1), event.args[0] if event.name == "aten.addmv" else None)


def grouped_mm(reader: Reader, event: Event) -> Operators:
    """Returns rows times the weights of their expert."""
    left, right = event.args[:2]
    return product(reader, left, right, (1, left.shape[0], right.shape[-1], left.shape[-1]))


def volume(sizes: Iterable[int]) -> list[int]:
    """Returns up to three extents as depth, height and width."""
    own = [int(size) for size in sizes]
    return [1] * (3 - len(own)) + own


def convolution(reader: Reader, event: Event) -> Operators:
    image, weight, bias = event.args[:3]
    result, transposed, groups = first_result(event), bool(event.args[6]), int(event.args[8])
    outputs = int(result.shape[1])
    sizes: dict[str, Any] = {
        "maps": reader.divided(int(image.shape[0]), image),
        "input": volume(image.shape[2:]),
        "output": volume(result.shape[2:]),
        "inputs": int(image.shape[1]),
        "outputs": outputs,
        "kernel": volume(weight.shape[2:]),
        "groups": groups,
    }
    flags = {"bias": bias is not None, "transposed": transposed, "input_kept": reader.keep(image)}
    sizes |= {name: True for name, is_set in flags.items() if is_set}
    return reader.with_weights("convolution", sizes, {"weight": (weight, int(weight.numel())), "bias": (bias, outputs)})


def attention(reader: Reader, event: Event) -> Operators:
    """Returns scaled dot-product attention, whichever kernel computes it."""
    query, keys, values = event.args[:3] if len(event.args) > 2 else [event.kwargs[name] for name in ("query", "key", "value")]
    mask = event.kwargs.get("attn_mask", event.kwargs.get("attn_bias"))
    mask = event.args[3] if mask is None and len(event.args) > 3 and hasattr(event.args[3], "shape") else mask
    causal = bool(event.kwargs.get("is_causal", False)) or any(own is True for own in event.args[4:])
    masked = mask is not None and key(mask) in reader.causal
    tokens, width = int(query.shape[-2]), int(query.shape[-1])
    sequences = reader.divided(int(query.numel()) // (heads_of(query) * tokens * width), query)
    sizes: dict[str, Any] = {
        "sequences": max(sequences, 1),
        "heads": heads_of(query),
        "kv_heads": heads_of(keys),
        "queries": tokens,
        "keys": int(keys.shape[-2]),
        "head_width": width,
        "value_width": int(values.shape[-1]),
    }
    share = argument(event, 4, "dropout_p", 0.0) if event.operator is None else 0.0
    biased = mask is not None and reader.is_trained(mask)
    flags = {"causal": causal or masked, "dropout": bool(share), "biased": biased}
    return [{"attention": sizes | {name: True for name, is_set in flags.items() if is_set}}]


def heads_of(tensor: Any) -> int:
    return int(tensor.shape[-3]) if tensor.dim() > 3 else 1


def recurrent(reader: Reader, event: Event) -> Operators:
    """Returns the layers of a recurrent module, each over all steps."""
    sequence, module, own = event.args[0], event.args[-2], event.args[-1]
    steps = int(sequence.shape[int(module.batch_first) if sequence.dim() > 2 else 0])
    features = int(sequence.shape[-1])
    sequences = max(reader.per_sample(sequence) // (steps * features), 1)
    directions = 1 + int(module.bidirectional)
    exact = all(key(tensor) in reader.unclaimed for tensor in own)
    beside = reader.weights(own)
    found: Operators = [] if exact else beside
    for layer in range(int(module.num_layers)):
        inputs = features if layer == 0 else directions * int(module.hidden_size)
        sizes: dict[str, Any] = {"sequences": sequences, "steps": steps, "inputs": inputs, "hidden": int(module.hidden_size)}
        sizes |= {"bidirectional": True} if module.bidirectional else {}
        sizes |= {} if exact else {"shared": True}
        found.append({event.name.split(".", 1)[1]: sizes})
    return found


def embedding(reader: Reader, event: Event) -> Operators:
    table, indices = event.args[:2]
    if not reader.is_parameter(table):
        return reader.kernel(event, "index", [table], [first_result(event)])
    entries, width = (int(size) for size in table.shape)
    sizes = {"rows": reader.per_sample(indices), "entries": entries, "width": width}
    return reader.with_weights("embedding", sizes, {"table": (table, entries * width)})


def normalised(reader: Reader, event: Event, word: str, sizes: dict[str, Any], weights: tuple[Any, ...]) -> Operators:
    """Returns a normalisation; one without all of its weights is a kernel with those that it has."""
    image, channels = event.args[0], int(list(sizes.values())[-1])
    if any(not reader.is_parameter(weight) for weight in weights):
        return reader.kernel(event, "norm", [image, *(own for own in weights if own is not None)], [first_result(event)])
    own = {**sizes, "input_kept": True} if reader.keep(image) else sizes
    return reader.with_weights(word, own, {str(index): (weight, channels) for index, weight in enumerate(weights)})


def layer_norm(reader: Reader, event: Event) -> Operators:
    width = math.prod(event.args[1])
    return normalised(reader, event, "layer_norm", reader.rows(event.args[0], width), event.args[2:4])


def rms_norm(reader: Reader, event: Event) -> Operators:
    image = event.args[0]
    if event.name == "module.rms_norm":
        return normalised(reader, event, "rms_norm", reader.rows(image), tuple(event.args[-1]))
    width = math.prod(argument(event, 1, "normalized_shape"))
    return normalised(reader, event, "rms_norm", reader.rows(image, width), (argument(event, 2, "weight"),))


def batch_norm(reader: Reader, event: Event) -> Operators:
    image = event.args[0]
    channels = int(image.shape[1])
    sizes = {"pixels": max(reader.per_sample(image) // channels, 1), "channels": channels}
    return normalised(reader, event, "batch_norm", sizes, event.args[1:3])


def group_norm(reader: Reader, event: Event) -> Operators:
    image, channels = event.args[0], int(event.args[4])
    sizes = {"pixels": max(reader.per_sample(image) // channels, 1), "channels": channels}
    return normalised(reader, event, "group_norm", sizes, event.args[1:3])


def gelu(reader: Reader, event: Event) -> Operators:
    image = event.args[0]
    sizes: dict[str, Any] = reader.rows(image)
    return [{"gelu": {**sizes, "input_kept": True} if reader.keep(image) else sizes}]


def dropout(reader: Reader, event: Event) -> Operators:
    """Returns random zeros, of which backward needs where they are."""
    share = argument(event, 1, "p", 0.5)
    if not share:
        return []
    count = reader.per_sample(first_result(event))
    return [{"kernel": {"read": count, "written": count, "masks": count}}]


def pool(word: str) -> Handler:
    def pooled(reader: Reader, event: Event) -> Operators:
        image, result = event.args[0], first_result(event)
        channels = int(image.shape[1])
        pixels, windows = reader.per_sample(image) // channels, reader.per_sample(result) // channels
        sizes: dict[str, Any] = {"pixels": max(pixels, 1), "windows": max(windows, 1), "channels": channels}
        return [{word: {**sizes, "input_kept": True} if word == "max_pool" and reader.keep(image) else sizes}]

    return pooled


def cross_entropy(reader: Reader, event: Event) -> Operators:
    reader.has_loss = True
    scores = argument(event, 0, "input")
    classes = int(scores.shape[1] if scores.dim() > 1 else scores.shape[0])
    return [loss_of(reader, scores, classes)]


def loss_of(reader: Reader, scores: Any, classes: int) -> dict[str, Any]:
    return {"cross_entropy": {"rows": max(reader.per_sample(scores) // classes, 1), "classes": classes}}


def other_loss(reader: Reader, event: Event) -> Operators:
    reader.has_loss = True
    given = [*tensors(event.args), *tensors(event.kwargs)]
    return reader.kernel(event, event.name.split(".", 1)[1], given, list(tensors(event.result)))


_HANDLERS: dict[str, Handler] = {
    "mm": mm,
    "addmm": addmm,
    "bmm": bmm,
    "baddbmm": baddbmm,
    "mv": vector_product,
    "addmv": vector_product,
    "dot": vector_product,
    "_grouped_mm": grouped_mm,
    "convolution": convolution,
    "scaled_dot_product_attention": attention,
    "embedding": embedding,
    "native_layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "_fused_rms_norm": rms_norm,
    "native_batch_norm": batch_norm,
    "_native_batch_norm_legit": batch_norm,
    "_native_batch_norm_legit_no_training": batch_norm,
    "_batch_norm_with_update": batch_norm,
    "native_group_norm": group_norm,
    "gelu": gelu,
    "lstm": recurrent,
    "gru": recurrent,
    "dropout": dropout,
    "max_pool2d_with_indices": pool("max_pool"),
    "max_pool3d_with_indices": pool("max_pool"),
    "avg_pool2d": pool("mean_pool"),
    "avg_pool3d": pool("mean_pool"),
    "_adaptive_avg_pool2d": pool("mean_pool"),
    "_adaptive_avg_pool3d": pool("mean_pool"),
    "cross_entropy": cross_entropy,
    "nll_loss_forward": other_loss,
    "nll_loss2d_forward": other_loss,
    "mse_loss": other_loss,
    "binary_cross_entropy_with_logits": other_loss,
}
