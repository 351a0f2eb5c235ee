"""Models of transformers: by their configuration where Trainyard reads their type, else by the module that it makes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from trainyard._call import Given, printed
from trainyard.errors import InvalidInput


def described(model: object, seq_len: int | None) -> dict[str, Any]:
    """Returns a model as the fields of a model file, or of a config.json."""
    config = _config(model)
    fields: dict[str, Any] = json.loads(json.dumps(config.to_dict(), default=str))
    if hasattr(model, "named_modules"):
        fields["architectures"] = [type(model).__name__]
    if (own := _read(fields)) is not None:
        return own if seq_len is None else {**own, "seq_len": seq_len}
    return _built(model, config, seq_len)


def _library() -> Any:
    import importlib

    return importlib.import_module("transformers")


def _config(model: object) -> Any:
    """Returns the configuration of a model, of a name or of a folder."""
    if isinstance(model, (str, Path)):
        return _library().AutoConfig.from_pretrained(str(model))
    config = getattr(model, "config", model)
    if not hasattr(config, "to_dict") or not hasattr(config, "model_type"):
        raise InvalidInput(
            f"this is a {type(model).__name__}, no model or configuration of transformers",
            field="model",
            hint="give a PreTrainedModel, a PretrainedConfig, a name of the Hub or a folder; or use from_torch",
        )
    return config


def _read(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns what Trainyard reads of a configuration; nothing if it does not know the type, or not all that is asked for."""
    given = Given("show").positional("models", "")
    given.words.append(given.model(fields))
    try:
        spec: dict[str, Any] = json.loads(printed(given, None))["model"]
    except InvalidInput:
        return None
    # How attention is computed is left to software and GPU.
    spec.pop("attention", None)
    return spec


def _built(model: object, config: Any, seq_len: int | None) -> dict[str, Any]:
    """Returns what the module computes, which transformers makes without weights."""
    import torch

    from trainyard._trace import traced

    module: Any = model
    transformers = _library()
    if not hasattr(module, "named_modules"):
        kinds: list[str] = getattr(config, "architectures", None) or []
        with torch.device("meta"):
            if kinds and hasattr(transformers, kinds[0]):
                module = getattr(transformers, kinds[0])(config)
            else:
                module = transformers.AutoModel.from_config(config)
    inputs = _inputs(module, config, seq_len)
    return traced(module, (), inputs, str(getattr(config, "name_or_path", "") or config.model_type), 1, ())


def _inputs(module: Any, config: Any, seq_len: int | None) -> dict[str, object]:
    """Returns inputs for one sample."""
    import inspect

    import torch

    taken = inspect.signature(module.forward).parameters
    text = getattr(config, "text_config", None) or config
    tokens = seq_len or min(int(getattr(text, "max_position_embeddings", None) or 512), 2048)
    known: dict[str, object] = {"input_ids": torch.zeros(1, tokens, dtype=torch.long, device="meta")}
    if bool(getattr(config, "is_encoder_decoder", False)):
        known["decoder_input_ids"] = known["input_ids"]
    image = _image(config)
    if image is not None:
        known["pixel_values"] = torch.zeros(1, *image, device="meta")
    found = {name: value for name, value in known.items() if name in taken}
    if str(getattr(module, "main_input_name", "input_ids")) not in {*found, "input_ids"}:
        raise InvalidInput(
            f"how a sample of {type(module).__name__} looks is not known: it reads `{module.main_input_name}`",
            field="model",
            hint="use from_torch with example inputs",
        )
    return found | ({"use_cache": False} if "use_cache" in taken else {})


def _image(config: Any) -> tuple[int, int, int] | None:
    """Returns channels, height and width of an image."""
    own = getattr(config, "vision_config", None) or config
    size: object = getattr(own, "image_size", None)
    if size is None and hasattr(own, "num_channels"):
        size = 224
    if isinstance(size, int):
        size = (size, size)
    if not isinstance(size, (list, tuple)):
        return None
    height, width = cast("tuple[int, int]", tuple(cast("list[int]", size)))
    return int(getattr(own, "num_channels", 3)), height, width
