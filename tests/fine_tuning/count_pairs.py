"""Counts by TRL's DPOTrainer and PyTorch of a step on pairs: `python count_pairs.py > pairs.json`.

Needs torch, transformers, peft, trl and datasets; the versions are part of the output. Nothing is downloaded: the model is the
tiny Llama of `count.py`, saved in a folder, and the tokenizer has words of its own.

- `flops`: forward (policy and reference) and backward of one pair by `torch.utils.flop_counter.FlopCounterMode`. TRL's
  head multiplies completions alone, so the pairs are nearly all completion: one token of prompt.
- `reference`: values of the model that the trainer keeps as its reference; null where it keeps none.
"""

import json
import os
import tempfile

os.environ["TQDM_DISABLE"] = "1"
import peft
import torch
import transformers
import trl
from count import TINY, lora
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

TOKENS = 32


def tokenizer():
    words = {f"w{index}": index for index in range(254)} | {"<pad>": 254, "<eos>": 255}
    own = Tokenizer(models.WordLevel(words, unk_token="w0"))
    own.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=own, pad_token="<pad>", eos_token="<eos>")


def counted(folder, method, precomputed):
    words = " ".join(f"w{index}" for index in range(1, TOKENS - 1))
    pairs = Dataset.from_dict({"prompt": ["w0 "], "chosen": [words], "rejected": [words]})
    options = dict(output_dir=folder + "/out", per_device_train_batch_size=1, max_length=TOKENS, report_to=[], use_cpu=True,
                   gradient_checkpointing=False, bf16=False, precompute_ref_log_probs=precomputed, save_strategy="no",
                   model_init_kwargs={"dtype": "float32", "attn_implementation": "eager"})
    trainer = trl.DPOTrainer(model=folder, args=trl.DPOConfig(**options), train_dataset=pairs, processing_class=tokenizer(),
                             peft_config=lora(4, "all-linear") if method == "lora" else None)
    if method == "lora":
        # As checkpointing makes them, which is the default.
        trainer.model.enable_input_require_grads()
    batch = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    with FlopCounterMode(display=False) as forward:
        loss = trainer.compute_loss(trainer.model, batch)
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    reference = trainer.ref_model
    return {
        "method": method, "precomputed": precomputed, "sequences": list(batch["input_ids"].shape),
        "forward": forward.get_total_flops(), "backward": backward.get_total_flops(),
        "reference": sum(value.numel() for value in reference.parameters()) if reference is not None else None,
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(LlamaConfig(**TINY)).save_pretrained(folder)
        tokenizer().save_pretrained(folder)
        rows = [counted(folder, method, precomputed) for method in ["full", "lora"] for precomputed in [False, True]]
    versions = {own.__name__: own.__version__ for own in [torch, transformers, peft, trl]}
    print(json.dumps({"versions": versions, "steps": rows}, indent=1))
