"""Trains adapters of a small Llama under FSDP 2 in two processes: `torchrun --nproc-per-node 2 shards.py FOLDER`.

Needs torch, transformers, peft and accelerate; nothing is downloaded, and no GPU is needed. Ends with an error unless

- weights that are not trained stay in bfloat16 and adapters, with their moments, are in single precision, all of them sharded,
- adapters compute in bfloat16,
- the loss falls, and is the same where the model recomputes its blocks, or FSDP does,
- a checkpoint holds adapters alone, under PEFT's names, and is loaded again; where FSDP recomputes, it holds nothing, so that
  launch files leave recomputation to the model,
- with whole states a checkpoint holds the same adapters whole, and what the Trainer saves beside it PEFT loads, with the
  same loss.
"""

import pathlib
import sys

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils import DistributedType, load_fsdp_model, save_fsdp_model
from peft import LoraConfig, PeftModel, get_peft_model
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from transformers import LlamaConfig, LlamaForCausalLM

STEPS, LAYERS = 5, 2


def adapted():
    """A Llama in bfloat16 with adapters, as PEFT makes them."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=LAYERS, num_attention_heads=4, vocab_size=256
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    return get_peft_model(model, LoraConfig(r=4, lora_alpha=8, target_modules="all-linear"))


def prepared(accelerator, recomputes, states="SHARDED_STATE_DICT"):
    """The model and its optimizer, sharded, and how they are sharded; `recomputes`: what computes activations again."""
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, reshard_after_forward=True, auto_wrap_policy="transformer_based_wrap",
        state_dict_type=states, cpu_ram_efficient_loading=True, activation_checkpointing=recomputes == "FSDP",
    )  # fmt: skip
    # Accelerate takes FSDP for GPUs alone.
    accelerator.state.distributed_type = DistributedType.FSDP
    accelerator.state.fsdp_plugin = plugin
    plugin.set_mixed_precision("bf16")
    model = adapted()
    if recomputes == "model":
        # As the Trainer does it.
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW([own for own in model.parameters() if own.requires_grad], lr=1e-2)
    return *accelerator.prepare(model, optimizer), plugin


def losses(accelerator, model, optimizer, samples):
    for _ in range(STEPS):
        loss = model(input_ids=samples, labels=samples).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        yield loss.item()


def check_formats(model, optimizer, inputs):
    formats = {(own.requires_grad, own.dtype, isinstance(own, DTensor)) for own in model.parameters()}
    assert formats == {(True, torch.float32, True), (False, torch.bfloat16, True)}, formats
    moments = {value.dtype for state in optimizer.state.values() for value in state.values()}
    assert moments == {torch.float32}, moments
    assert inputs == {torch.bfloat16}, inputs
    units = [name for name, module in model.named_modules() if isinstance(module, FSDPModule)]
    assert sum(name.endswith(tuple(f"layers.{layer}" for layer in range(LAYERS))) for name in units) == LAYERS, units


def check_checkpoint(accelerator, model, plugin, folder, is_empty):
    save_fsdp_model(plugin, accelerator, model, str(folder), adapter_only=True)
    saved = FileSystemReader(folder / "pytorch_model_fsdp_0").read_metadata().state_dict_metadata
    trained = [name for name, own in model.named_parameters() if own.requires_grad]
    assert len(saved) == (0 if is_empty else len(trained)), (folder, saved)
    assert all(name.endswith(("lora_A.weight", "lora_B.weight")) for name in saved), saved
    if not is_empty:
        load_fsdp_model(plugin, accelerator, model, str(folder), adapter_only=True)


def check_whole_states(accelerator, samples, folder):
    """Saves as the Trainer does (`save_model`, `save_fsdp_model`), and loads both again."""
    model, optimizer, plugin = prepared(accelerator, "model", "FULL_STATE_DICT")
    list(losses(accelerator, model, optimizer, samples))
    with torch.no_grad():
        trained = model(input_ids=samples, labels=samples).loss.item()
    # On processors Accelerate is back at replicas by now.
    accelerator.state.distributed_type = DistributedType.FSDP
    weights = accelerator.get_state_dict(model)
    if accelerator.is_main_process:
        model.save_pretrained(folder, state_dict=weights)
        again = PeftModel.from_pretrained(adapted().unload(), folder)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            loaded = again(input_ids=samples, labels=samples).loss.item()
        assert abs(loaded - trained) < 0.02, (loaded, trained)
    save_fsdp_model(plugin, accelerator, model, str(folder), adapter_only=True)
    accelerator.wait_for_everyone()
    saved = torch.load(folder / "pytorch_model_fsdp.bin")
    own = {name: value for name, value in model.named_parameters() if value.requires_grad}
    assert {name: value.shape for name, value in saved.items()} == {name: value.shape for name, value in own.items()}, saved
    for value in own.values():
        value.data.mul_(0)
    load_fsdp_model(plugin, accelerator, model, str(folder), adapter_only=True)
    with torch.no_grad():
        assert model(input_ids=samples, labels=samples).loss.item() == trained


def main():
    folder = pathlib.Path(sys.argv[1])
    accelerator = Accelerator(mixed_precision="bf16", cpu=True)
    samples = torch.randint(0, 256, (2, 32), generator=torch.Generator().manual_seed(0))
    ways = []
    for recomputes in ("nothing", "model", "FSDP"):
        model, optimizer, plugin = prepared(accelerator, recomputes)
        inputs = set()
        for name, module in model.named_modules():
            if name.endswith("lora_A.default"):
                module.register_forward_hook(lambda _, given, __: inputs.add(given[0].dtype))
        ways.append(list(losses(accelerator, model, optimizer, samples)))
        check_formats(model, optimizer, inputs)
        check_checkpoint(accelerator, model, plugin, folder / recomputes, recomputes == "FSDP")
    assert ways[0] == ways[1] == ways[2] and ways[0][-1] < ways[0][0], ways
    check_whole_states(accelerator, samples, folder / "whole")
    accelerator.print(f"adapters are sharded: losses {ways[0]}")


if __name__ == "__main__":
    main()
