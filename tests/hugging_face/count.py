#!/usr/bin/env python3
"""Counts parameters and FLOPs of the classes that transformers makes of configurations, for tests of models.

Usage: python count.py [--check] [TYPE ...]    (all types of model if none is named)

Writes TYPE.json beside this file, or, with --check, compares it with what is counted now. A published model is written as
its own `config.json` has it and as transformers saves it; parameters are counted on the meta device. A small model has
the FLOPs of a forward pass over one sample, as PyTorch's FlopCounterMode counts them. README.md describes the files.
"""

import json
import pathlib
import sys
import warnings

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from cases import CASES

HERE = pathlib.Path(__file__).resolve().parent


def config_of(model_type, fields):
    config = CONFIG_MAPPING[model_type].from_dict(dict(fields))
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    return config


# Classes that were written for one checkpoint before transformers had them, and what transformers calls them.
RENAMED = {"MPTForCausalLM": "MptForCausalLM"}


def class_of(fields):
    name = fields["architectures"][0]
    return getattr(transformers, RENAMED.get(name, name))


def inputs_of(config, case):
    """One sample: tokens, pixels, or features of sound, as the case says."""
    made = {}
    for name, shape in case["inputs"].items():
        whole = name.endswith("ids")
        made[name] = torch.ones(1, *shape, dtype=torch.long) if whole else torch.randn(1, *shape)
    return made


def saved(config, architectures):
    """The configuration as `save_pretrained` writes it, with the number of classes in place of more names than a few."""
    fields = json.loads(type(config).from_dict(config.to_dict()).to_json_string())
    fields.pop("label2id", None)
    if len(fields.get("id2label", [])) > 10:
        fields["num_labels"] = len(fields.pop("id2label"))
    return fields | {"architectures": architectures}


def count(model_type, name, case):
    fields = {"model_type": model_type} | case["config"]
    config = config_of(model_type, fields)
    with torch.device("meta"):
        parameters = sum(p.numel() for p in class_of(fields)(config).parameters())
    counted = {"name": name, "source": case["source"], "parameters": parameters}
    if "inputs" in case:
        torch.manual_seed(0)
        model = class_of(fields)(config).eval()
        counter = FlopCounterMode(display=False)
        with counter, torch.no_grad():
            model(**inputs_of(config, case))
        counted |= {"inputs": case["inputs"], "flops": counter.get_total_flops()}
    else:
        counted["written"] = fields
    return counted | {"saved": saved(config, fields["architectures"])}


def main(arguments):
    check = "--check" in arguments
    types = [argument for argument in arguments if argument != "--check"] or list(CASES)
    wrong = []
    for model_type in types:
        models = [count(model_type, name, case) for name, case in CASES[model_type].items()]
        text = json.dumps({"transformers": transformers.__version__, "models": models}, indent=1) + "\n"
        path = HERE / f"{model_type}.json"
        if not check:
            path.write_text(text)
        elif [figures(model) for model in models] != [figures(model) for model in json.loads(path.read_text())["models"]]:
            wrong.append(model_type)
        print(model_type, *(f"{model['name']}: {model['parameters']:,}" for model in models))
    if wrong:
        sys.exit(f"counts differ from those that are kept: {', '.join(wrong)}")


def figures(model):
    """What a later version of transformers must count too; how it saves a configuration may change."""
    return {key: value for key, value in model.items() if key != "saved"}


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    main(sys.argv[1:])
