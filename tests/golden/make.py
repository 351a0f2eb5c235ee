#!/usr/bin/env python3
"""Trains tiny models with PyTorch and transformers and writes what came out, for the executor's golden tests.

Usage: python make.py [CASE ...]    (all cases if none is named)

Each case is a folder beside this file: the configuration and the first weights as transformers saves them
(`config.json`, `model.safetensors`), the samples where they are not tokens (`data.safetensors`), and `golden.json`
with the batches of every step and what PyTorch made of them. README.md describes the settings.
"""

import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

STEPS = 20
BATCH = 8
ADAMW = {"betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
LEARNING_RATES = {"adamw": 3e-3, "sgd": 0.1}
# Batch normalisation over few samples makes a training chaotic where steps are large: rounding then decides the loss.
GENTLE = {"adamw": 5e-4, "sgd": 0.005}
HERE = pathlib.Path(__file__).resolve().parent
NEOX = {"vocab_size": 64, "max_position_embeddings": 16, "layer_norm_eps": 1e-5, "bos_token_id": 0, "eos_token_id": 0}


def perturb(model, generator):
    """First values under which every parameter matters: none is zero, none is one."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_scale = parameter.dim() == 1 and name.endswith("weight")
            # transformers joins the matrices of all experts.
            first = parameter[0][0] if ".experts." in name else parameter[0]
            fan = max(first.numel(), 16) if parameter.dim() > 1 else 40
            parameter.copy_(1 + 0.2 * noise if is_scale else noise / fan**0.5)


def configure(config):
    config._attn_implementation = "eager"
    return config


class Tokens:
    """Next-token prediction: a sample is one token longer than what the model reads."""

    def __init__(self, sequence, vocabulary):
        self.sequence, self.vocabulary = sequence, vocabulary

    def batches(self, generator):
        shape = (STEPS + 1, BATCH, self.sequence + 1)
        # Few distinct tokens in each sample, so that there is something to learn.
        tokens = torch.randint(self.vocabulary, shape, generator=generator) % (self.vocabulary // 2)
        return [{"inputs": batch[:, :-1].tolist(), "targets": batch[:, 1:].tolist()} for batch in tokens], {}

    def loss(self, model, batch, _data):
        logits = model(input_ids=torch.tensor(batch["inputs"]), use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(batch["targets"]).flatten())


class Masked:
    """Masked tokens, as many in each sample; `scored` are their rows, sample · sequence + position."""

    def __init__(self, sequence, vocabulary, scored):
        self.sequence, self.vocabulary, self.scored = sequence, vocabulary, scored

    def batches(self, generator):
        batches = []
        for _ in range(STEPS + 1):
            inputs = torch.randint(4, self.vocabulary // 2, (BATCH, self.sequence), generator=generator)
            chosen = [torch.randperm(self.sequence, generator=generator)[: self.scored] for _ in range(BATCH)]
            scored = torch.stack([places.sort().values for places in chosen])
            targets = inputs.gather(1, scored)
            # Token 3 is the mask.
            inputs = inputs.scatter(1, scored, 3)
            rows = scored + torch.arange(BATCH).unsqueeze(1) * self.sequence
            batches.append({"inputs": inputs.tolist(), "targets": targets.tolist(), "scored": rows.tolist()})
        return batches, {}

    def loss(self, model, batch, _data):
        logits = model(input_ids=torch.tensor(batch["inputs"])).logits.flatten(0, 1)
        rows = torch.tensor(batch["scored"]).flatten()
        return torch.nn.functional.cross_entropy(logits[rows], torch.tensor(batch["targets"]).flatten())


class Samples:
    """Classes of images of bytes, read as value / 127.5 − 1, or of vectors; `samples` are numbers of samples."""

    COUNT = 24

    def __init__(self, shape, classes, call):
        self.shape, self.classes, self.call = shape, classes, call

    def batches(self, generator):
        if len(self.shape) == 3:
            # Images with a gradient of brightness, so that neighbouring pixels are alike.
            levels = torch.rand((self.COUNT, self.shape[0], 1, 1), generator=generator)
            ramp = torch.linspace(0, 1, self.shape[1]).view(1, 1, -1, 1) * levels
            noise = torch.rand((self.COUNT, *self.shape), generator=generator)
            data = ((0.5 * levels + 0.3 * ramp + 0.2 * noise) * 255).to(torch.uint8)
        else:
            data = torch.randn((self.COUNT, *self.shape), generator=generator)
        labels = torch.randint(self.classes, (self.COUNT,), generator=generator)
        order = [torch.randperm(self.COUNT, generator=generator)[:BATCH] for _ in range(STEPS + 1)]
        batches = [{"samples": samples.tolist(), "targets": labels[samples].tolist()} for samples in order]
        return batches, {"samples": data}

    def loss(self, model, batch, data):
        samples = data["samples"][torch.tensor(batch["samples"])]
        if samples.dtype == torch.uint8:
            samples = samples.float() / 127.5 - 1
        return torch.nn.functional.cross_entropy(self.call(model, samples), torch.tensor(batch["targets"]))


def image_logits(model, samples):
    return model(pixel_values=samples).logits


def labels(count):
    return {index: str(index) for index in range(count)}


def perceptron():
    layers = []
    for inputs, outputs in [(12, 24), (24, 24), (24, 24)]:
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.GELU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(24, 5))


def cases():
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    encoder = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
    resnet = {"num_channels": 3, "embedding_size": 8, "id2label": labels(5)}
    return {
        "gpt2": (
            lambda: transformers.GPT2LMHeadModel(configure(transformers.GPT2Config(
                n_layer=2, n_embd=32, n_head=4, n_inner=64, vocab_size=64, n_positions=16, bos_token_id=0,
                eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))),
            Tokens(16, 64),
        ),
        "llama": (
            lambda: transformers.LlamaForCausalLM(configure(transformers.LlamaConfig(
                **encoder, num_key_value_heads=2, vocab_size=64, max_position_embeddings=16, rms_norm_eps=1e-6,
                rope_parameters={"rope_type": "default", "rope_theta": 500000.0}))),
            Tokens(16, 64),
        ),
        "llama3": (
            lambda: transformers.LlamaForCausalLM(configure(transformers.LlamaConfig(
                **encoder, num_key_value_heads=2, vocab_size=64, max_position_embeddings=32, rms_norm_eps=1e-5,
                rope_parameters={
                    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0,
                    "high_freq_factor": 2.0, "original_max_position_embeddings": 80}))),
            Tokens(32, 64),
        ),
        "mistral": (
            lambda: transformers.MistralForCausalLM(configure(transformers.MistralConfig(
                **encoder, num_key_value_heads=1, head_dim=12, vocab_size=64, max_position_embeddings=16,
                sliding_window=5, rms_norm_eps=1e-5, tie_word_embeddings=True))),
            Tokens(16, 64),
        ),
        "mixtral": (
            lambda: transformers.MixtralForCausalLM(configure(transformers.MixtralConfig(
                **{**encoder, "intermediate_size": 48}, num_key_value_heads=2, vocab_size=64,
                max_position_embeddings=16, rms_norm_eps=1e-5, num_local_experts=4, num_experts_per_tok=2))),
            Tokens(16, 64),
        ),
        "qwen2": (
            lambda: transformers.Qwen2ForCausalLM(configure(transformers.Qwen2Config(
                **encoder, num_key_value_heads=2, vocab_size=64, max_position_embeddings=16, rms_norm_eps=1e-6,
                tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}))),
            Tokens(16, 64),
        ),
        "qwen3": (
            lambda: transformers.Qwen3ForCausalLM(configure(transformers.Qwen3Config(
                **encoder, num_key_value_heads=2, head_dim=12, vocab_size=64, max_position_embeddings=16,
                rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}))),
            Tokens(16, 64),
        ),
        "gpt-neox": (
            lambda: transformers.GPTNeoXForCausalLM(configure(transformers.GPTNeoXConfig(
                **encoder, **NEOX, use_parallel_residual=True, rope_parameters={
                    "rope_type": "default", "rope_theta": 20000.0, "partial_rotary_factor": 0.25}))),
            Tokens(16, 64),
        ),
        "gpt-neox-serial": (
            lambda: transformers.GPTNeoXForCausalLM(configure(transformers.GPTNeoXConfig(
                **encoder, **NEOX, use_parallel_residual=False, rope_parameters={
                    "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}))),
            Tokens(16, 64),
        ),
        "gemma2": (
            lambda: transformers.Gemma2ForCausalLM(configure(transformers.Gemma2Config(
                **(encoder | {"num_hidden_layers": 3}), num_key_value_heads=2, head_dim=12, vocab_size=64,
                max_position_embeddings=16, sliding_window=5, query_pre_attn_scalar=20, attn_logit_softcapping=2.0,
                final_logit_softcapping=3.0, rms_norm_eps=1e-6, pad_token_id=None, bos_token_id=0, eos_token_id=0))),
            Tokens(16, 64),
        ),
        "bert": (
            lambda: transformers.BertForMaskedLM(configure(transformers.BertConfig(
                **encoder, **no_dropout, vocab_size=64, max_position_embeddings=16))),
            Masked(16, 64, 3),
        ),
        "vit": (
            lambda: transformers.ViTForImageClassification(configure(transformers.ViTConfig(
                **encoder, **no_dropout, image_size=16, patch_size=4, num_channels=3, id2label=labels(5)))),
            Samples((3, 16, 16), 5, image_logits),
        ),
        "resnet-basic": (
            lambda: transformers.ResNetForImageClassification(transformers.ResNetConfig(
                **resnet, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic")),
            Samples((3, 32, 32), 5, image_logits),
            GENTLE,
        ),
        "resnet-bottleneck": (
            lambda: transformers.ResNetForImageClassification(transformers.ResNetConfig(
                **resnet, hidden_sizes=[32, 64], depths=[2, 1], layer_type="bottleneck")),
            Samples((3, 32, 32), 5, image_logits),
            GENTLE,
        ),
        "mlp": (perceptron, Samples((12,), 5, lambda model, samples: model(samples))),
    }


def norm(tensor):
    return tensor.double().norm().item()


def train(build, task, batches, data, optimizer):
    """Losses before each step, gradient norms of the first, and the loss of a last batch in evaluation mode."""
    model = build()
    model.train()
    optimizer = optimizer(model.parameters())
    losses, first = [], {}
    for step, batch in enumerate(batches[:STEPS]):
        optimizer.zero_grad()
        loss = task.loss(model, batch, data)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            named = model.named_parameters()
            first = {name: [norm(part) for part in parts(name, parameter.grad)] for name, parameter in named}
        optimizer.step()
    model.eval()
    with torch.no_grad():
        evaluated = task.loss(model, batches[STEPS], data).item()
    buffers = {name: norm(buffer) for name, buffer in model.named_buffers() if name.endswith(("_mean", "_var"))}
    return losses, first, evaluated, buffers


def parts(name, tensor):
    """The matrices that a parameter consists of: transformers joins those of all experts, and saves them apart."""
    if tensor.dim() != 3 or ".experts." not in name:
        return [tensor]
    return [part for expert in tensor for part in (expert.chunk(2) if "gate_up" in name else [expert])]


def saved_names(model, folder):
    """The names in the file of the parts of every parameter: transformers renames some when it saves."""
    saved = load_file(folder / "model.safetensors")

    def name_of(part):
        return next(name for name, tensor in saved.items() if torch.equal(tensor, part))

    return {name: [name_of(part) for part in parts(name, value)] for name, value in model.named_parameters()}


def make(name, construct, task, rates=LEARNING_RATES, seed=7):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    original = construct()
    perturb(original, generator)
    first_values = {key: value.clone() for key, value in original.state_dict().items()}
    if hasattr(original, "save_pretrained"):
        original.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        configuration = json.loads((folder / "config.json").read_text())
        # What transformers assumes, said, so that the file alone describes the computation.
        configuration.pop("transformers_version", None)
        (folder / "config.json").write_text(json.dumps(configuration, indent=1, sort_keys=True) + "\n")
    else:
        save_file(first_values, folder / "model.safetensors", metadata={"format": "pt"})
    names = saved_names(original, folder)
    batches, data = task.batches(generator)
    if data:
        save_file(data, folder / "data.safetensors")

    def build():
        model = construct()
        model.load_state_dict(first_values)
        return model

    golden = {"batches": batches, "runs": {}}
    optimizers = {
        "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=rates["adamw"], **ADAMW),
        "sgd": lambda parameters: torch.optim.SGD(parameters, lr=rates["sgd"]),
    }
    for kind, optimizer in optimizers.items():
        losses, first, evaluated, buffers = train(build, task, batches, data, optimizer)
        golden["gradient_norms"] = {
            saved: value for name, values in first.items() for saved, value in zip(names[name], values)
        }
        run = {"learning_rate": rates[kind], "losses": losses, "evaluated": evaluated, "buffer_norms": buffers}
        golden["runs"][kind] = run
        print(f"{name:18} {kind:6} {losses[0]:.4f} → {losses[-1]:.4f}, evaluated {evaluated:.4f}")
    text = json.dumps(golden, indent=1)
    (folder / "golden.json").write_text(compact(text) + "\n")


def compact(text):
    """Innermost lists on one line each."""
    import re

    return re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: "[" + re.sub(r"\s+", " ", found.group(1)) + "]", text)


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    known = cases()
    for name in sys.argv[1:] or known:
        make(name, *known[name])


if __name__ == "__main__":
    main()
