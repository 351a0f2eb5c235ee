#!/usr/bin/env python3
"""Trains adapters, and all weights, with the program from models that transformers made, and loads what it saved with PEFT and
transformers.

Usage: python peft_loads.py TRAINYARD    (the program)

For each model the loss of held-out samples after the training, which the program tells, must be that of PEFT's model with
the adapters of the last checkpoint, or of transformers' model in it, to 1e-4 of it.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import peft
import torch
import transformers

SEQUENCE, VOCABULARY, SAMPLES = 32, 256, 400
JOB = """
[data]
path = "tokens.npy"

[training]
method = "{method}"
global_batch = 8
steps = 20
learning_rate = 1e-2
{lora}
[cluster]
profile = "local"
"""
LORA = """
[training.lora]
rank = 4
targets = {targets}
"""


def models():
    plain = {"vocab_size": VOCABULARY, "max_position_embeddings": SEQUENCE, "hidden_size": 64, "intermediate_size": 128,
             "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    everything, some, whole = ["all-linear"], ["q", "o", "down"], None
    ungrouped = {name: value for name, value in plain.items() if name != "num_key_value_heads"}
    neox = transformers.GPTNeoXConfig(**ungrouped, bos_token_id=0, eos_token_id=0)
    # With a padding token transformers' embedding learns nothing of it.
    gemma2 = transformers.Gemma2Config(**plain, head_dim=24, sliding_window=12, query_pre_attn_scalar=20, pad_token_id=None)
    gpt2 = transformers.GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=VOCABULARY, n_positions=SEQUENCE,
                                   resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    return [
        (transformers.GPT2LMHeadModel(gpt2), everything),
        (transformers.GPT2LMHeadModel(gpt2), some),
        (transformers.LlamaForCausalLM(transformers.LlamaConfig(**plain)), everything),
        (transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**plain, tie_word_embeddings=True)), some),
        (transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**plain, head_dim=16)), everything),
        (transformers.GPTNeoXForCausalLM(neox), everything),
        (transformers.GPTNeoXForCausalLM(neox), some),
        (transformers.Gemma2ForCausalLM(gemma2), everything),
        (transformers.Gemma2ForCausalLM(gemma2), some),
        (transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**plain, head_dim=16)), whole),
        (transformers.GPTNeoXForCausalLM(neox), whole),
        (transformers.Gemma2ForCausalLM(gemma2), whole),
    ]


def held_out(model, tokens):
    """The mean loss of every twentieth sample."""
    starts = [number * SEQUENCE for number in range(19, SAMPLES, 20)]
    samples = torch.stack([torch.tensor(tokens[start : start + SEQUENCE + 1].astype("int64")) for start in starts])
    with torch.no_grad():
        logits = model(input_ids=samples[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), samples[:, 1:].flatten()).item()


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    torch.manual_seed(7)
    transformers.logging.set_verbosity_error()
    tokens = numpy.cumsum(numpy.random.default_rng(7).integers(1, 4, SAMPLES * SEQUENCE + 1)) % 61
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        numpy.save(folder / "tokens.npy", tokens.astype("uint16"))
        for number, (model, targets) in enumerate(models()):
            base, run = folder / f"base-{number}", folder / f"run-{number}"
            model.save_pretrained(base)
            lora = LORA.format(targets=json.dumps(targets)) if targets else ""
            (folder / "job.toml").write_text(JOB.format(method="lora" if targets else "full", lora=lora))
            words = ["train", "job.toml", "--model", base / "config.json", "--seq-len", str(SEQUENCE)]
            words += ["--weights", base, "--out", run, "--format", "json"]
            done = subprocess.run([program, *map(str, words)], cwd=folder, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(done.stderr)
            told = json.loads(done.stdout)
            plain = transformers.AutoModelForCausalLM.from_pretrained(base)
            before, checkpoint = held_out(plain, tokens), told["files"]["checkpoint"]
            if targets:
                after = peft.PeftModel.from_pretrained(plain, checkpoint)
            else:
                after = transformers.AutoModelForCausalLM.from_pretrained(checkpoint)
            theirs, ours = held_out(after.eval(), tokens), told["loss"]["held_out"]
            part = ", ".join(targets or ["all weights"])
            print(f"{type(model).__name__:20} {part:12} {before:.6f} → {ours:.6f}, there {theirs:.6f}", flush=True)
            if abs(ours - theirs) > 1e-4 * theirs or before - ours < 0.05:
                sys.exit("they differ, or nothing was learnt")


if __name__ == "__main__":
    main()
