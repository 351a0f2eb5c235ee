"""Counts what FSDP 2 makes of weights in NF4 that bitsandbytes stores as bfloat16: `packed.py`.

Needs torch and bitsandbytes; no GPU is needed. PyTorch 2.15 copies shards before it gathers them with `_foreach_copy_`
(torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py), whose CUDA kernel takes bfloat16 through float
(aten/src/ATen/native/cuda/ForeachBinaryOpList.cu, `Copy<opmath_t, opmath_t>`), and the way back makes 0x7FFF of every NaN
(bitsandbytes-foundation/bitsandbytes issue 1945). With a GPU that kernel is run; without one its NaN is written.
"""

import torch
from bitsandbytes import functional

WIDTH, NAN = 4096, 0x7FFF


def copied(packed):
    if torch.cuda.is_available():
        source, copy = packed.cuda(), torch.empty_like(packed, device="cuda")
        torch._foreach_copy_([copy], [source])
        return copy.cpu()
    copy = packed.clone()
    copy.view(torch.int16)[torch.isnan(packed)] = NAN
    return copy


def error(weights, of):
    return ((weights - of).norm() / of.norm()).item()


def main():
    weights = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(0)) * 0.02
    packed, state = functional.quantize_4bit(
        weights.bfloat16(), quant_type="nf4", compress_statistics=True, quant_storage=torch.bfloat16
    )
    before, after = (functional.dequantize_4bit(own, state).float() for own in (packed, copied(packed)))
    print(f"{torch.isnan(packed).float().mean():.4%} of the words are NaN, and {(before != after).float().mean():.4%} of the")
    print(f"weights change: an error of {error(after, before):.1%}, beside {error(before, weights):.1%} of NF4 itself")


if __name__ == "__main__":
    main()
