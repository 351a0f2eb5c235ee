"""Counts by PyTorch of what fine-tuning holds and moves on a device: `python peaks.py > peaks.json`.

Needs torch, transformers, peft and trl; the versions are part of the output. Nothing is downloaded. Every tensor that is made
is followed until it is let go, so that the counts are those of a GPU that computes the same, but for dropout, which is off:
its masks take a byte a value there and four here.

- `blocks`: per block of a small Llama and of a small GPT-2, bytes that are kept from forward to backward, the peak of a
  backward pass with full recomputation, and bytes that kernels other than products and attention read and write; all over
  those of the residual stream in bytes of one, rows x width. Casts and gradients of weights are left out, so that the number
  of rows does not matter.
- `losses`: bytes a logit, the most in forward and in backward, of the loss of transformers.
- `kept_in_tiles`: bytes a logit that stay after forward with TRL's head.
"""

import gc
import json
import weakref

import peft
import torch
import transformers
import trl
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from trl.trainer.utils import add_fused_lm_head

ROWS, WIDTH, INSIDE, HEADS, VOCABULARY = 512, 256, 1024, 4, 64
TARGETS = {"llama": ["q_proj", "v_proj"], "gpt2": ["c_attn"]}
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_flash_attention_for_cpu_backward"}
WRITES_ONLY = {"fill_", "zero_", "zeros", "zeros_like", "new_zeros", "full", "ones_like"}


class Followed(TorchDispatchMode):
    """Bytes of tensors that are alive, and bytes that kernels move."""

    def __init__(self, model):
        super().__init__()
        self.own, self.known, self.alive, self.peak, self.moved = set(), {}, 0, 0, 0
        for parameter in model.parameters():
            for tensor in (parameter, parameter.grad):
                if tensor is not None:
                    self.own.add(tensor.untyped_storage()._cdata)
        self.own |= {buffer.untyped_storage()._cdata for buffer in model.buffers()}

    def follow(self, tensor):
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self.own or key in self.known:
            return False
        self.known[key] = size
        self.alive += size
        weakref.finalize(storage, self.let_go, key)
        return True

    def let_go(self, key):
        self.alive -= self.known.pop(key, 0)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        made = [tensor for tensor in tree_flatten(result)[0] if isinstance(tensor, torch.Tensor)]
        name = function._schema.name.split("::")[1]
        new = any([self.follow(tensor) for tensor in made])
        self.peak = max(self.peak, self.alive)
        if (new or name.endswith("_")) and name not in PRODUCTS and not name.startswith("empty"):
            read = [] if name in WRITES_ONLY else tree_flatten((args, kwargs or {}))[0]
            both = made + [tensor for tensor in read if isinstance(tensor, torch.Tensor)]
            self.moved += sum(tensor.numel() * tensor.element_size() for tensor in both if 0 not in tensor.stride())
        return result


def model_of(family, method, half, layers, vocabulary, tiles):
    torch.manual_seed(0)
    if family == "llama":
        config = transformers.LlamaConfig(
            hidden_size=WIDTH, intermediate_size=INSIDE, num_hidden_layers=layers, num_attention_heads=HEADS,
            num_key_value_heads=HEADS, vocab_size=vocabulary, tie_word_embeddings=False)
    else:
        config = transformers.GPT2Config(
            n_embd=WIDTH, n_inner=INSIDE, n_layer=layers, n_head=HEADS, vocab_size=vocabulary, n_positions=ROWS,
            attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    config.use_cache = False
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    if half or method != "full":
        model = model.to(torch.bfloat16)
    if tiles:
        add_fused_lm_head(model, outputs=("log_probs", "entropy", "is_top1"))
    if method != "full":
        targets = "all-linear" if method == "lora" else TARGETS[family]
        model.enable_input_require_grads()
        model = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules=targets, task_type="CAUSAL_LM"))
        if half:
            model = model.to(torch.bfloat16)
    return model.train()


def step(model, half, tiles):
    tokens = torch.arange(ROWS).reshape(1, ROWS) % 64
    with torch.autocast("cpu", torch.bfloat16, enabled=not half):
        return model(input_ids=tokens, labels=tokens, **({"fused_lm_head": True} if tiles else {})).loss


def followed(family, method, half, layers=4, vocabulary=VOCABULARY, recompute=False, tiles=False):
    """Bytes kept after forward, the peaks of forward and backward, and bytes moved by each."""
    model = model_of(family, method, half, layers, vocabulary, tiles)
    if recompute:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    step(model, half, tiles).backward()
    gc.collect()
    with Followed(model) as forward:
        loss = step(model, half, tiles)
    kept = forward.alive
    peaks, moved = [forward.peak], [forward.moved]
    forward.peak, forward.moved = 0, 0
    with forward:
        loss.backward()
    return [kept, *peaks, forward.peak, *moved, forward.moved]


def blocks():
    rows = []
    stream = ROWS * WIDTH
    for family in ["llama", "gpt2"]:
        weights = (16 if family == "llama" else 12) * WIDTH * WIDTH
        for method, half in [("full", False), ("full", True), ("lora", False), ("lora", True), ("lora of attention", False),
                             ("lora of attention", True)]:
            few, many = (followed(family, method, half, layers) for layers in (3, 5))
            kept, _, _, forward, backward = ((after - before) / 2 for before, after in zip(few, many))
            peak = followed(family, method, half, 3, recompute=True)[2]
            if method == "full":
                # Autocast keeps weights in half precision for the step; their gradients are added to those before.
                kept -= 0 if half else 2 * weights
                peak -= 0 if half else 2 * weights
                forward -= 0 if half else 6 * weights
                backward -= 6 * weights if half else 18 * weights
            rows.append({
                "family": family, "method": method, "autocast": not half, "kept": round(kept / stream, 1),
                "peak_of_recomputation": round(peak / stream, 1), "moved_forward": round(forward / stream, 1),
                "moved_backward": round(backward / stream, 1)})
    return rows


def of_logits(tiles):
    few, many = (followed("llama", "lora", False, vocabulary=size, tiles=tiles) for size in (8192, 16384))
    kept, forward, backward, _, _ = ((after - before) / (8192 * ROWS) for before, after in zip(few, many))
    return {"kept": round(kept, 2), "forward": round(forward, 2), "backward": round(backward, 2)}


if __name__ == "__main__":
    own = {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__,
           "trl": trl.__version__}
    whole, tiles = of_logits(False), of_logits(True)
    found = {"versions": own, "blocks": blocks(), "losses": whole, "kept_in_tiles": tiles["kept"]}
    print(json.dumps(found, indent=1))
