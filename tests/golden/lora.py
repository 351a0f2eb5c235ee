#!/usr/bin/env python3
"""Trains adapters beside the tiny models of `make.py` with PEFT and writes what came out, for the executor's golden tests.

Usage: python lora.py [CASE ...]    (all cases if none is named)

Each case is a folder `CASE-lora` beside this file: the adapters as PEFT saves them before the first step
(`adapter_config.json`, `adapter_model.safetensors`), beside the weights of the folder `CASE`, and `golden.json` with what
PEFT and PyTorch made of them on the batches of that folder. README.md describes the settings.
"""

import json
import sys

import peft
import torch
import transformers

from make import ADAMW, HERE, STEPS, Tokens, compact, norm

LEARNING_RATES = {"adamw": 3e-3, "sgd": 0.1}
ALL = "all-linear"
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
CASES = {
    "gpt2": {"r": 4, "lora_alpha": 8, "target_modules": ALL},
    "llama": {"r": 4, "lora_alpha": 8, "target_modules": ALL},
    "mistral": {"r": 2, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj", "down_proj"]},
    "mixtral": {"r": 4, "lora_alpha": 8, "target_modules": ATTENTION},
    "qwen2": {"r": 4, "lora_alpha": 4, "target_modules": ALL},
    "gpt-neox": {"r": 4, "lora_alpha": 8, "target_modules": ALL},
    "gemma2": {"r": 3, "lora_alpha": 6, "target_modules": ALL},
    "qwen3": {"r": 3, "lora_alpha": 8, "target_modules": ALL},
}


def build(name, settings):
    """The model with adapters, whose second weights are none of zero, so that every gradient of the first step shows."""
    base = transformers.AutoModelForCausalLM.from_pretrained(HERE / name, attn_implementation="eager")
    torch.manual_seed(7)
    model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **settings))
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "lora_B" in key:
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model


def train(name, settings, batches, optimizer):
    """Losses before each step, gradient norms of the first, and the loss of a last batch in evaluation mode."""
    model = build(name, settings)
    model.train()
    trained = {key.replace(".default", ""): value for key, value in model.named_parameters() if value.requires_grad}
    optimizer = optimizer(trained.values())
    task, losses, first = Tokens(0, 0), [], {}
    for step, batch in enumerate(batches[:STEPS]):
        optimizer.zero_grad()
        loss = task.loss(model, batch, None)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            first = {key: norm(value.grad) for key, value in trained.items()}
        optimizer.step()
    model.eval()
    with torch.no_grad():
        evaluated = task.loss(model, batches[STEPS], None).item()
    return losses, first, evaluated


def make(name, settings):
    folder = HERE / f"{name}-lora"
    folder.mkdir(exist_ok=True)
    build(name, settings).save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    configuration = json.loads((folder / "adapter_config.json").read_text())
    # A path of the machine that it was made on.
    configuration["base_model_name_or_path"] = f"../{name}"
    configuration["target_modules"] = sorted(configuration["target_modules"])
    (folder / "adapter_config.json").write_text(json.dumps(configuration, indent=1, sort_keys=True) + "\n")
    batches = json.loads((HERE / name / "golden.json").read_text())["batches"]
    golden = {"batches": [], "runs": {}}
    optimizers = {
        "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=LEARNING_RATES["adamw"], **ADAMW),
        "sgd": lambda parameters: torch.optim.SGD(parameters, lr=LEARNING_RATES["sgd"]),
    }
    for kind, optimizer in optimizers.items():
        losses, golden["gradient_norms"], evaluated = train(name, settings, batches, optimizer)
        run = {"learning_rate": LEARNING_RATES[kind], "losses": losses, "evaluated": evaluated, "buffer_norms": {}}
        golden["runs"][kind] = run
        print(f"{name:18} {kind:6} {losses[0]:.4f} → {losses[-1]:.4f}, evaluated {evaluated:.4f}")
    (folder / "golden.json").write_text(compact(json.dumps(golden, indent=1)) + "\n")


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    for name in sys.argv[1:] or CASES:
        make(name, CASES[name])


if __name__ == "__main__":
    main()
