"""Writes the ONNX files beside it: models as PyTorch's exporters write them, without the values of
weights.

    pip install torch onnx onnxscript; python make.py

Written with torch 2.15.0, onnx and onnxscript of November 2026.
"""

from pathlib import Path

import onnx
import torch
from torch import nn


class Block(nn.Module):
    """A transformer block before whose halves values are normalised, on 16 tokens of 32 features."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        batch, tokens, width = x.shape
        parts = self.project(x).reshape(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x):
        x = x + self.attend(self.first(x))
        return x + self.narrow(nn.functional.gelu(self.wide(self.second(x))))


class Transformer(nn.Module):
    """Tokens, positions, two blocks and a head."""

    def __init__(self, vocab=50, tokens=16, width=32):
        super().__init__()
        self.table, self.positions = nn.Embedding(vocab, width), nn.Embedding(tokens, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        places = torch.arange(ids.shape[1])
        return self.head(self.norm(self.blocks(self.table(ids) + self.positions(places))))


class Residual(nn.Module):
    """A basic block of a residual network, with its shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.one = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.a, self.b = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.short = nn.Identity()
        if stride != 1:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.b(self.two(torch.relu(self.a(self.one(x))))) + self.short(x))


class Network(nn.Module):
    """A stem, two basic blocks and a head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.blocks = nn.Sequential(Residual(16, 16, 1), Residual(16, 32, 2))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


def write(model, sample, name, dynamo):
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    path = Path(__file__).with_name(name)
    # Training keeps normalisations over batches apart from the convolutions before them.
    training = torch.onnx.TrainingMode.TRAINING if isinstance(model, Network) else torch.onnx.TrainingMode.EVAL
    if dynamo:
        torch.onnx.export(model.eval(), (sample,), path, dynamo=True, external_data=False)
    else:
        folding = training == torch.onnx.TrainingMode.EVAL
        torch.onnx.export(model, (sample,), path, dynamo=False, training=training, do_constant_folding=folding)
    # Where in the program each node comes from is most of what the exporter writes.
    written = onnx.load(path)
    for part in [written, written.graph, *written.graph.node, *written.graph.initializer, *written.graph.value_info]:
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    # Weights are not read: without them the files are small.
    for tensor in written.graph.initializer:
        if tensor.data_type != onnx.TensorProto.INT64:
            tensor.ClearField("raw_data")
    written.graph.ClearField("value_info")
    written.ClearField("functions")
    onnx.save(written, path)


ids = torch.zeros(1, 16, dtype=torch.long)
write(Transformer(), ids, "transformer.onnx", dynamo=True)
write(Transformer(), ids, "transformer-torchscript.onnx", dynamo=False)
write(Network(), torch.zeros(1, 3, 64, 64), "residual.onnx", dynamo=False)
