#!/usr/bin/env python3
"""Trains the cases of make.py again in half precision with PyTorch's autocast: `python half.py > half.json`.

The weights and batches are those beside this file. In fp16 the loss is scaled by torch.amp.GradScaler with its own numbers.
`runs` has, for AdamW, a format and a factor by which tables of tokens (and positions) are larger, the loss before each step
and the steps that the scaler left out.
"""

import json

import torch
import transformers
from make import ADAMW, HERE, LEARNING_RATES, STEPS, cases, compact

CASES = ["gpt2", "llama", "mistral", "qwen2", "gpt-neox", "bert"]
FACTORS = [1, 8, 32]


def enlarged(model, factor):
    head = model.get_output_embeddings()
    tables = [module.weight for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    if head is not None and not any(head.weight is table for table in tables) and model.config.tie_word_embeddings:
        tables.append(head.weight)
    with torch.no_grad():
        for table in tables:
            table.mul_(factor)
    return model


def train(construct, task, name, format, factor):
    saved = type(construct()).from_pretrained(HERE / name, attn_implementation="eager", dtype=torch.float32)
    model = enlarged(saved, factor).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATES["adamw"], **ADAMW)
    scaler = torch.amp.GradScaler("cpu", enabled=format == torch.float16)
    batches = json.loads((HERE / name / "golden.json").read_text())["batches"]
    losses, skipped = [], []
    for step, batch in enumerate(batches[:STEPS]):
        optimizer.zero_grad()
        with torch.autocast("cpu", format, enabled=format != torch.float32):
            loss = task.loss(model, batch, {})
        losses.append(loss.item())
        before = scaler.get_scale()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < before:
            skipped.append(step)
    return {"losses": losses, "skipped": skipped}


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    known = cases()
    runs = [
        {"case": name, "format": format, "factor": factor, **train(*known[name], name, kind, factor)}
        for name in CASES
        for format, kind in [("fp32", torch.float32), ("fp16-mixed", torch.float16), ("bf16-mixed", torch.bfloat16)]
        for factor in FACTORS
    ]
    own = {"torch": torch.__version__, "transformers": transformers.__version__}
    print(compact(json.dumps({"versions": own, "runs": runs}, indent=1)))


if __name__ == "__main__":
    main()
