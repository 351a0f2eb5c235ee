"""Models are read from modules of PyTorch, LightningModules and configurations of transformers, as PyTorch counts them."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trainyard

torch: Any = pytest.importorskip("torch")
functional: Any = importlib.import_module("torch.nn.functional")

MACHINES: Any = {"instances": ["p3.16xlarge"], "max_instances": 1, "samples": 1e6, "global_batch": 64}


def counted(module: Any, inputs: dict[str, Any]) -> float:
    """Returns what PyTorch counts in a forward pass over one sample."""
    from torch.utils.flop_counter import FlopCounterMode

    module.train()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(**inputs)
    return float(counter.get_total_flops())


def checked(module: Any, inputs: dict[str, Any], name: str) -> trainyard.ModelDescription:
    """Reads a module, and compares parameters and FLOPs with those that PyTorch counts."""
    model = trainyard.from_torch(module, (), inputs, name=name)
    assert model.parameters == sum(parameter.numel() for parameter in module.parameters())
    assert model.forward_flops == pytest.approx(counted(module, inputs), rel=0.01)
    assert len(model["traced"]) > 1
    return model


IMAGES = {
    "alexnet": 6,
    "convnext_tiny": 9,
    "densenet121": 40,
    "efficientnet_b0": 12,
    "inception_v3": 12,
    "maxvit_t": 6,
    "mobilenet_v3_large": 12,
    "regnet_y_400mf": 8,
    "resnet50": 8,
    "shufflenet_v2_x1_0": 6,
    "squeezenet1_0": 8,
    "swin_t": 9,
    "vgg16": 12,
    "vit_b_16": 3,
}


@pytest.mark.parametrize("name", IMAGES)
def test_models_of_torchvision_are_read_with_their_parameters_and_flops(name: str) -> None:
    models: Any = pytest.importorskip("torchvision.models")
    size = 299 if name == "inception_v3" else 224
    # Inception normalises vectors over the batch, of which one would be none.
    batch = 2 if name == "inception_v3" else 1
    module = models.get_model(name, weights=None).to("meta")
    image = torch.zeros(batch, 3, size, size, device="meta")
    flops = counted(module, {"x": image}) / batch
    model = trainyard.from_torch(module, image, name=name)
    assert model.parameters == sum(parameter.numel() for parameter in module.parameters())
    assert model.forward_flops == pytest.approx(flops, rel=0.01)
    assert len(model["traced"]) >= IMAGES[name]
    plan = trainyard.plan(model=model, **MACHINES)
    assert plan.prediction.step_time_s > 0


def _tokens(count: int) -> Any:
    return torch.zeros(1, count, dtype=torch.long)


def _image() -> Any:
    return torch.zeros(1, 3, 224, 224)


_SMALL = {"num_hidden_layers": 2, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8}
_DECODER = {**_SMALL, "num_key_value_heads": 2, "vocab_size": 1000}
_TEXT: Callable[[], dict[str, Any]] = lambda: {"input_ids": _tokens(64)}  # noqa: E731
_BOTH: Callable[[], dict[str, Any]] = lambda: {"input_ids": _tokens(64), "decoder_input_ids": _tokens(32)}  # noqa: E731
_PIXELS: Callable[[], dict[str, Any]] = lambda: {"pixel_values": _image()}  # noqa: E731

# A class of transformers, its configuration, and what it reads.
TRANSFORMERS: dict[str, tuple[str, dict[str, Any], Callable[[], dict[str, Any]]]] = {
    "gpt2": ("GPT2LMHeadModel", {"n_layer": 2, "n_embd": 256, "n_head": 8, "vocab_size": 1000}, _TEXT),
    "llama": ("LlamaForCausalLM", _DECODER, _TEXT),
    "qwen2": ("Qwen2ForCausalLM", {**_DECODER, "tie_word_embeddings": True}, _TEXT),
    "mistral": ("MistralForCausalLM", _DECODER, _TEXT),
    "gemma2": ("Gemma2ForCausalLM", _DECODER, _TEXT),
    "bert": ("BertForMaskedLM", _SMALL, _TEXT),
    "roberta": ("RobertaForMaskedLM", _SMALL, _TEXT),
    "distilbert": ("DistilBertForMaskedLM", {"n_layers": 2, "dim": 256, "hidden_dim": 512, "n_heads": 8}, _TEXT),
    "albert": ("AlbertForMaskedLM", _SMALL, _TEXT),
    "deberta": ("DebertaV2ForMaskedLM", {**_SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, _TEXT),
    "t5": ("T5ForConditionalGeneration", {"num_layers": 2, "d_model": 256, "d_ff": 512, "vocab_size": 1000}, _BOTH),
    "bart": ("BartForConditionalGeneration", {"encoder_layers": 2, "decoder_layers": 2, "d_model": 256}, _BOTH),
    "vit": ("ViTForImageClassification", _SMALL, _PIXELS),
    "swin": ("SwinForImageClassification", {}, _PIXELS),
    "convnext": ("ConvNextForImageClassification", {}, _PIXELS),
    "segformer": ("SegformerForSemanticSegmentation", {}, _PIXELS),
    "whisper": (
        "WhisperForConditionalGeneration",
        {"encoder_layers": 2, "decoder_layers": 2, "vocab_size": 1000, "pad_token_id": 0},
        lambda: {"input_features": torch.zeros(1, 80, 3000), "decoder_input_ids": _tokens(32)},
    ),
    "clip": (
        "CLIPModel",
        {"text_config": {**_SMALL}, "vision_config": {**_SMALL}},
        lambda: {"input_ids": _tokens(77), "pixel_values": _image()},
    ),
}


def built(name: str) -> tuple[Any, dict[str, Any]]:
    """Returns a model of transformers, and what it reads."""
    transformers: Any = pytest.importorskip("transformers")
    kind, fields, inputs = TRANSFORMERS[name]
    config = getattr(transformers, kind).config_class(**fields)
    # Layers are dropped by chance otherwise, and FLOPs with them.
    config.layerdrop = config.encoder_layerdrop = config.decoder_layerdrop = 0.0
    config.use_cache = False
    return getattr(transformers, kind)(config), inputs()


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_models_of_transformers_are_read_with_their_parameters_and_flops(name: str) -> None:
    module, inputs = built(name)
    model = checked(module, inputs, name)
    plan = trainyard.plan(model=model, **MACHINES)
    assert plan.prediction.step_time_s > 0


@pytest.mark.parametrize("name", ["gpt2", "bert", "t5", "vit", "clip"])
def test_configurations_of_transformers_are_read_without_their_module(name: str) -> None:
    module, _ = built(name)
    model = trainyard.from_transformers(module)
    assert model["family"] != "traced"
    assert model.parameters == sum(parameter.numel() for parameter in module.parameters())
    assert trainyard.plan(model=model, **MACHINES).prediction.step_time_s > 0


def test_a_type_that_is_not_read_from_its_configuration_is_read_from_its_module() -> None:
    module, _ = built("albert")
    by_config, by_module = trainyard.from_transformers(module.config), trainyard.from_transformers(module, seq_len=64)
    assert (by_config["family"], by_module["family"]) == ("traced", "traced")
    assert by_module["input"] == {"tokens": 64}
    assert by_module.parameters == sum(parameter.numel() for parameter in module.parameters())


def test_a_folder_of_transformers_is_a_name(tmp_path: Path) -> None:
    module, _ = built("gpt2")
    module.config.save_pretrained(tmp_path / "mine")
    model = trainyard.from_transformers(str(tmp_path / "mine"), seq_len=128)
    assert (model["family"], model["seq_len"]) == ("gpt", 128)
    with pytest.raises(trainyard.InvalidInput, match="this is a int, no model or configuration"):
        trainyard.from_transformers(3)


def test_a_traced_model_costs_what_the_same_model_of_the_catalog_does() -> None:
    transformers: Any = pytest.importorskip("transformers")
    with torch.device("meta"):
        module = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    traced = trainyard.from_torch(module, (), {"input_ids": _tokens(1024), "use_cache": False})
    fix = {"parallel.pipeline": 1, "recompute": "none", "batch.micro": 4}
    plans = [trainyard.plan(model=model, fix=fix, stack="pytorch-ddp", **MACHINES) for model in ("gpt2", traced)]
    catalog, own = (plan.prediction.step_time_s for plan in plans)
    assert own == pytest.approx(catalog, rel=0.1)


class Tied(torch.nn.Module):  # type: ignore[misc]
    """A head that shares its weights with the table, and a parameter that nothing uses."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(100, 8)
        self.blocks = torch.nn.ModuleList([torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()) for _ in range(3)])
        self.head = torch.nn.Linear(8, 100, bias=False)
        self.head.weight = self.table.weight
        self.unused = torch.nn.Parameter(torch.zeros(5))

    def forward(self, tokens: Any) -> Any:
        value = self.table(tokens)
        for block in self.blocks:
            value = block(value)
        return self.head(value)


def test_shared_weights_count_once_and_unused_ones_too() -> None:
    model = trainyard.from_torch(Tied(), torch.zeros(4, 6, dtype=torch.long), name="tied")
    assert model.parameters == 100 * 8 + 3 * (8 * 8 + 8) + 5
    assert model.forward_flops == 2 * 6 * (3 * 8 * 8 + 8 * 100)
    assert [(layer["name"], layer.get("repeat", 1)) for layer in model["traced"]] == [
        ("table", 1),
        ("blocks.0…2", 3),
        ("head", 1),
    ]
    assert model["traced"][-1]["tied"] == 800
    assert model["input"] == {"tokens": 6}


def test_frozen_weights_are_warned_of() -> None:
    module = Tied()
    module.blocks.requires_grad_(False)
    with pytest.warns(trainyard.TrainyardWarning, match="216 of 1,021 parameters are not trained"):
        trainyard.from_torch(module, torch.zeros(4, 6, dtype=torch.long))


def test_what_is_read_does_not_depend_on_the_batch() -> None:
    of = [trainyard.from_torch(Tied(), torch.zeros(batch, 6, dtype=torch.long), name="tied") for batch in (1, 4)]
    assert of[0].to_dict() == of[1].to_dict()


def test_a_model_is_read_without_its_memory() -> None:
    transformers: Any = pytest.importorskip("transformers")
    with torch.device("meta"):
        module = transformers.LlamaForCausalLM(transformers.LlamaConfig(num_hidden_layers=80, hidden_size=8192))
    model = trainyard.from_torch(module, (), {"input_ids": _tokens(4096), "use_cache": False})
    assert model.parameters == sum(parameter.numel() for parameter in module.parameters()) > 30e9
    assert len(model["traced"]) == 3


class Odd(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, what: Callable[[Any], Any]) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(8, 8), Function(what))

    def forward(self, value: Any) -> Any:
        return self.inner(value)


class Function(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, what: Callable[[Any], Any]) -> None:
        super().__init__()
        self.what = what

    def forward(self, value: Any) -> Any:
        return self.what(value)


def test_what_cannot_be_read_is_said_with_operator_and_module() -> None:
    with pytest.raises(trainyard.InvalidInput, match="operator `_linalg_svd` of module `inner.1`") as refused:
        trainyard.from_torch(Odd(lambda value: torch.linalg.svd(value)[1]), torch.zeros(4, 8))
    assert refused.value.value == "aten::_linalg_svd"
    assert refused.value.hint is not None and "docs/models.md" in refused.value.hint
    bound = trainyard.from_torch(
        Odd(lambda value: torch.linalg.svd(value)[1]), torch.zeros(4, 8), memory_bound=["aten::_linalg_svd"]
    )
    assert bound.parameters == 72
    with pytest.raises(trainyard.InvalidInput, match="depends on values of tensors") as refused:
        trainyard.from_torch(Odd(lambda value: value if value.sum() > 0 else -value), torch.zeros(4, 8))
    assert refused.value.value == "inner.1"
    with pytest.raises(trainyard.InvalidInput, match="forward pass of Odd fails") as refused:
        trainyard.from_torch(Odd(lambda value: value), torch.zeros(4, 9))
    assert refused.value.field == "example_inputs"
    with pytest.raises(trainyard.InvalidInput, match="a module of PyTorch is read, but this is a dict"):
        trainyard.from_torch({}, torch.zeros(4, 9))


def test_a_module_is_left_as_it_was() -> None:
    own = functional.scaled_dot_product_attention
    module = Odd(lambda value: torch.linalg.svd(value)[1]).eval()
    with pytest.raises(trainyard.InvalidInput):
        trainyard.from_torch(module, torch.zeros(4, 8))
    assert functional.scaled_dot_product_attention is own
    assert not any(inner.training or inner._forward_hooks or inner._forward_pre_hooks for inner in module.modules())


def test_a_model_goes_wherever_models_go(tmp_path: Path) -> None:
    model = trainyard.from_torch(Tied(), torch.zeros(4, 6, dtype=torch.long), name="tied")
    assert repr(model) == "<model tied: traced, 1,021 parameters, 1.19e+04 FLOPs forward>"
    plan = trainyard.plan(model=model, **MACHINES)
    job: Any = {
        "model": model,
        "data": {"samples": 1e6},
        "training": {"global_batch": 64},
        "cluster": {"instances": ["p3.16xlarge"], "max_instances": 1},
    }
    assert trainyard.plan(job) == plan
    assert trainyard.simulate(plan).prediction == plan.prediction
    assert len(trainyard.what_if(job, vary={"global_batch": [64, 128]}).records()) == 2
    model.save(tmp_path / "tied.toml")
    words = [sys.executable, "-m", "trainyard", "show", "models", "tied.toml", "--format", "json"]
    shown = json.loads(subprocess.run(words, cwd=tmp_path, check=True, capture_output=True).stdout)
    assert (shown["parameters"], shown["model"]["traced"]) == (model.parameters, model["traced"])


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_are_one_operator_each(kind: str) -> None:
    class Own(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(50, 16)
            self.cells = getattr(torch.nn, kind)(16, 32, num_layers=2, bidirectional=True, batch_first=True)
            self.head = torch.nn.Linear(64, 50)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.cells(self.table(tokens))[0])

    module = Own()
    model = trainyard.from_torch(module, torch.zeros(2, 20, dtype=torch.long), name="cells")
    gates = 4 if kind == "LSTM" else 3
    products = sum(2 * gates * 32 * (inputs + 32) for inputs in (16, 64)) + 64 * 50
    assert model.parameters == sum(parameter.numel() for parameter in module.parameters())
    assert model.forward_flops == 2 * 20 * products
    words = [word for layer in model["traced"] for operator in layer["operators"] for word in operator]
    assert words[:3] == ["embedding", kind.lower(), kind.lower()]
    assert words.count("linear") == 1 and "product" not in words


def test_a_lightning_module_is_read_with_its_example() -> None:
    lightning: Any = pytest.importorskip("lightning")

    class Own(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.example_input_array = torch.zeros(2, 6, dtype=torch.long)
            self.model = Tied()

        def forward(self, tokens: Any) -> Any:
            return self.model(tokens)

    assert trainyard.from_lightning(Own()).parameters == 1021
    without = Own()
    without.example_input_array = None
    with pytest.raises(trainyard.InvalidInput, match="no inputs") as refused:
        trainyard.from_lightning(without)
    assert refused.value.field == "example_inputs"
