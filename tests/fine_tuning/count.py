"""Counts by PEFT and PyTorch of what fine-tuning computes and keeps: `python count.py > counts.json`.

Needs torch, transformers and peft; the versions are part of the output. Nothing is downloaded, and large models are made
on the meta device.

- `adapters`: trainable values of PEFT (`get_nb_trainable_parameters`) of configurations of published models.
- `flops`: forward and backward of a tiny Llama by `torch.utils.flop_counter.FlopCounterMode`, with gradients back to the
  embedding (`enable_input_require_grads`), as checkpointing has them.
- `kept`: bytes of the tensors that autograd keeps of the blocks of the same model under autocast in bfloat16, by
  `saved_tensors_hooks`, each storage once, without parameters.
"""

import json

import peft
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, Gemma2Config, GPT2Config, GPTNeoXConfig, LlamaConfig

LLAMA = {
    "llama-2-7b": dict(hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32,
                       num_key_value_heads=32, vocab_size=32000),
    "llama-3-8b": dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                       num_key_value_heads=8, vocab_size=128256),
    "llama-2-70b": dict(hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64,
                        num_key_value_heads=8, vocab_size=32000),
}
OTHERS = {
    "gpt2": GPT2Config(),
    "pythia-1.4b": GPTNeoXConfig(hidden_size=2048, intermediate_size=8192, num_hidden_layers=24, num_attention_heads=16,
                                 vocab_size=50304),
    "gemma-2-9b": Gemma2Config(hidden_size=3584, intermediate_size=14336, num_hidden_layers=42, num_attention_heads=16,
                               num_key_value_heads=8, head_dim=256, vocab_size=256000),
}
TINY = dict(hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            vocab_size=256, attn_implementation="eager")
BATCH, TOKENS = 2, 32


def lora(rank, targets, dropout=0.0):
    return peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets, lora_dropout=dropout, task_type="CAUSAL_LM")


def adapters():
    rows = []
    for name, config in LLAMA.items():
        for rank, targets in [(8, ["q_proj", "v_proj"]), (16, "all-linear"), (64, "all-linear")]:
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(LlamaConfig(**config))
                tuned = peft.get_peft_model(model, lora(rank, targets))
            trained, whole = tuned.get_nb_trainable_parameters()
            rows.append({"model": name, "rank": rank, "targets": targets, "trained": trained, "all": whole})
    for name, config in OTHERS.items():
        with torch.device("meta"):
            tuned = peft.get_peft_model(AutoModelForCausalLM.from_config(config), lora(8, "all-linear"))
        trained, whole = tuned.get_nb_trainable_parameters()
        rows.append({"model": name, "rank": 8, "targets": "all-linear", "trained": trained, "all": whole})
    return rows


def tiny(method, dropout=0.0):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(LlamaConfig(**TINY))
    model.config.use_cache = False
    if method == "lora":
        model = model.to(torch.bfloat16)
        model.enable_input_require_grads()
        model = peft.get_peft_model(model, lora(4, "all-linear", dropout))
    if method == "frozen":
        model.requires_grad_(False)
        model.model.layers[-1].requires_grad_(True)
        model.model.norm.requires_grad_(True)
        model.lm_head.requires_grad_(True)
    return model.train()


def loss_of(model):
    tokens = torch.arange(BATCH * TOKENS).reshape(BATCH, TOKENS) % 256
    with torch.autocast("cpu", torch.bfloat16):
        return model(input_ids=tokens, labels=tokens).loss


def flops():
    rows = []
    for method in ["full", "lora", "frozen"]:
        model = tiny(method)
        with FlopCounterMode(display=False) as forward:
            loss = loss_of(model)
        with FlopCounterMode(display=False) as backward:
            loss.backward()
        rows.append({"method": method, "forward": forward.get_total_flops(), "backward": backward.get_total_flops()})
    return rows


def kept():
    rows = []
    for method, dropout in [("full", 0.0), ("lora", 0.0), ("lora", 0.1)]:
        model = tiny(method, dropout)
        own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
        seen = {}

        def pack(tensor):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                seen[storage.data_ptr()] = (storage.nbytes(), str(tensor.dtype), tuple(tensor.shape))
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss_of(model)
        kinds = {}
        for nbytes, dtype, shape in seen.values():
            key = f"{dtype} {list(shape)}"
            kinds.setdefault(key, [0, nbytes])[0] += 1
        rows.append({"method": method, "dropout": dropout, "bytes": sum(n for n, _, _ in seen.values()), "tensors": kinds})
    return rows


if __name__ == "__main__":
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__}
    print(json.dumps({"versions": versions, "adapters": adapters(), "flops": flops(), "kept": kept()}, indent=1))
