#!/usr/bin/env python3
"""Trains the decoder of a Trainyard plan with PyTorch: DistributedDataParallel over gloo, on the processors; or over
NCCL, on GPUs (--device cuda, with --precision bf16-mixed or fp16-mixed by autocast, and --compile).

The model, the data, the batch and the optimizer are those of the plan and of `trainyard run`, in fp32; the way is that
of somebody who knows PyTorch: F.scaled_dot_product_attention, F.cross_entropy, the fused AdamW, gradients as views of
the buckets. It is eager PyTorch, as Trainyard's executor is.

    python pytorch_ddp.py --plan plan.json --data TEXT [--steps 8] [--threads 1] [--warm-up 2]

prints tokens/s, the median over the steps after the warm-up, and the losses of the first and the last step.
"""

import argparse
import json
import os
import pathlib
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self, hidden, heads, ffn):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.projection = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.expand, self.contract = nn.Linear(hidden, ffn), nn.Linear(ffn, hidden)

    def forward(self, x):
        samples, sequence, hidden = x.shape
        heads = self.qkv(self.norm_1(x)).view(samples, sequence, 3, self.heads, hidden // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(context.transpose(1, 2).reshape(samples, sequence, hidden))
        return x + self.contract(F.gelu(self.expand(self.norm_2(x)), approximate=GELU))


# GPT-2 approximates GELU by a hyperbolic tangent.
GELU = "tanh"


class Decoder(nn.Module):
    def __init__(self, model):
        super().__init__()
        hidden = model["hidden"]
        self.tokens = nn.Embedding(model["vocab"], hidden)
        self.positions = nn.Embedding(model["seq_len"], hidden)
        self.blocks = nn.ModuleList(Block(hidden, model["heads"], model["ffn"]) for _ in range(model["layers"]))
        self.norm = nn.LayerNorm(hidden)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def text_of(path):
    path = pathlib.Path(path)
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return torch.frombuffer(bytearray(b"".join(file.read_bytes() for file in files)), dtype=torch.uint8).long()


def train(rank, world, plan, options):
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(options.port)
    on_gpu = options.device == "cuda"
    # Products in single precision go through matrix units as TF32, as those of the executor do.
    torch.set_float32_matmul_precision("high" if on_gpu else "highest")
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if on_gpu else "gloo", rank=rank, world_size=world)
    model = plan["model"]
    sequence, micro, accumulation = model["seq_len"], plan["batch"]["micro"], plan["batch"]["accumulation"]
    network = DistributedDataParallel(Decoder(model).to(device), gradient_as_bucket_view=True)
    train_step = torch.compile(network) if options.compile else network
    half = {"bf16-mixed": torch.bfloat16, "fp16-mixed": torch.float16}.get(options.precision)
    scaler = torch.amp.GradScaler(options.device, enabled=half is torch.float16)
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=options.fused_adamw
    )
    text = text_of(options.data)
    windows = torch.Generator().manual_seed(rank)
    seconds, losses = [], []
    for _ in range(options.steps + options.warm_up):
        dist.barrier()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=False)
        total = 0.0
        for part in range(accumulation):
            starts = torch.randint(len(text) - sequence, (micro,), generator=windows)
            batch = torch.stack([text[at : at + sequence + 1] for at in starts]).to(device)
            network.require_backward_grad_sync = part == accumulation - 1
            with torch.autocast(options.device, dtype=half, enabled=half is not None):
                loss = train_step(batch[:, :-1], batch[:, 1:]) / accumulation
            scaler.scale(loss).backward()
            total += loss.item()
        scaler.step(optimizer)
        scaler.update()
        if on_gpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        losses.append(total)
    # A step is done when its slowest replica is.
    slowest = torch.tensor(seconds[options.warm_up :], device=device)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    if rank == 0:
        tokens = world * micro * accumulation * sequence
        step = statistics.median(slowest.tolist())
        print(json.dumps({
            "framework": f"PyTorch {torch.__version__}",
            "tokens_per_s": tokens / step,
            "step_s": step,
            "first_loss": losses[0],
            "last_loss": losses[-1],
        }))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", required=True, help="plan document of `trainyard plan`")
    parser.add_argument("--data", required=True, help="text file, or folder of them; bytes are tokens")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warm-up", type=int, default=2, help="steps that are not counted")
    parser.add_argument("--threads", type=int, default=1, help="threads of a replica")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["fp32", "bf16-mixed", "fp16-mixed"], default="fp32")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--port", type=int, default=29517)
    parser.add_argument("--fused-adamw", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    plan = json.loads(pathlib.Path(options.plan).read_text())["plan"]
    parallel = plan["parallel"]
    if (parallel.get("tensor", 1), parallel.get("pipeline", 1)) != (1, 1) or plan["model"]["family"] != "gpt":
        parser.error("the plan must be data parallel, of a gpt")
    world = parallel["data"]
    mp.spawn(train, args=(world, plan, options), nprocs=world)


if __name__ == "__main__":
    main()
