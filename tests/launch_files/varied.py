"""Plans that differ from one of the command line's in some fields, so that the words of each target are read: by name,
the plan, and the fields with their values."""

INPUT = {"storage": "s3-fastfile", "decode": "cpu", "workers": 4, "prefetch": 2, "cache": "none"}
DECAY = {"job.training.warm_up_steps": 20, "job.training.final_learning_rate": 1e-5}
STAGES = {
    "plan.parallel": {"data": 8, "tensor": 1, "pipeline": 2, "sequence": False},
    "plan.batch": {"global": 256, "micro": 8, "accumulation": 4},
    "plan.schedule": "1f1b",
}

VOLTA = {"instance": "p3.16xlarge", "instances": 2}

# As many layers as GPT-2.
LLAMA = {
    "name": "small-llama", "family": "llama", "layers": 12, "hidden": 768, "heads": 12, "kv_heads": 4, "ffn": 2048,
    "vocab": 32000, "seq_len": 1024, "rotary_base": 500000.0,
    "rotary_scaling": {"kind": "llama3", "factor": 8.0, "original_tokens": 8192},
}  # fmt: skip

VARIED = {
    "fp32": ("replicated", {"plan.precision": "fp32"}),
    "tf32": ("fully-sharded", {"plan.precision": "tf32"}),
    "recomputed": ("replicated", {"plan.recompute": "full"}),
    "recomputed-shards": ("fully-sharded", {"plan.recompute": "full"}),
    "zero-1": ("fully-sharded", {"plan.state_sharding": "optimizer"}),
    "zero-2": ("fully-sharded", {"plan.state_sharding": "gradients"}),
    "machines": ("fully-sharded", {"plan.sharding_ranks": 8}),
    "machines-zero-2": ("fully-sharded", {"plan.sharding_ranks": 8, "plan.state_sharding": "gradients"}),
    "fours": ("fully-sharded", {"plan.sharding_ranks": 4}),
    "micro-batch": ("replicated", {"plan.gradient_reduction": "micro-batch"}),
    "compressed": ("replicated", {"plan.gradient_compression": "fp16"}),
    "smddp": ("fully-sharded", {"plan.collectives": "smddp", "plan.state_sharding": "none"}),
    "ring": ("replicated", {"plan.collectives": "ring"}),
    "offload-nvme": ("fully-sharded", {"plan.offload": "optimizer@nvme+parameters"}),
    "offload-activations": ("replicated", {"plan.offload": "activations", "plan.recompute": "full"}),
    "adam": ("replicated", {"plan.optimizer": "adam"}),
    "sgd": ("replicated", {"plan.optimizer": "sgd"}),
    "momentum": ("replicated", {"plan.optimizer": "sgd-momentum", "job.training.momentum": 0.8}),
    "lars": ("replicated", {"plan.optimizer": "lars"}),
    "lamb": ("replicated", {"plan.optimizer": "lamb"}),
    "lamb-zero-2": ("fully-sharded", {"plan.optimizer": "lamb", "plan.state_sharding": "gradients"}),
    "rmsprop": ("replicated", {"plan.optimizer": "rmsprop"}),
    "adamw-8bit": ("replicated", {"plan.optimizer": "adamw-8bit"}),
    "adamw-8bit-shards": ("fully-sharded", {"plan.optimizer": "adamw-8bit"}),
    "rates": (
        "replicated",
        {
            "job.training.betas": [0.9, 0.95], "job.training.epsilon": 1e-6, "job.training.weight_decay": 0.1,
            "job.training.clip_norm": 1.0,
        },
    ),
    "cosine": ("replicated", {"job.training.decay": "cosine", **DECAY}),
    "cosine-to-nothing": ("replicated", {"job.training.decay": "cosine"}),
    "linear": ("fully-sharded", {"job.training.decay": "linear", **DECAY}),
    "linear-to-nothing": ("replicated", {"job.training.decay": "linear"}),
    "polynomial": ("replicated", {"job.training.decay": "polynomial", **DECAY}),
    "stages": ("replicated", {**STAGES, "plan.stages": [{"first": 0, "layers": 7}, {"first": 7, "layers": 7}]}),
    "uneven-stages": ("replicated", {**STAGES, "plan.stages": [{"first": 0, "layers": 8}, {"first": 8, "layers": 6}]}),
    "spot": ("replicated", {"plan.pricing": "spot"}),
    "streamed": ("replicated", {"plan.input": INPUT}),
    "piped": ("replicated", {"plan.input": {**INPUT, "storage": "s3-pipe"}}),
    "warm-pool": ("replicated", {"job.campaign": {"start": "warm-pool"}}),
    "kept": (
        "replicated",
        {"job.campaign": {"checkpoint_interval": "10 min", "evaluation": {"every_steps": 500, "samples": 1000}}},
    ),
    "priced-checkpoints": ("replicated", {"prediction.checkpoint_interval_s": 300.0}),
    "ddp": ("replicated", {"plan.stack": "pytorch-ddp"}),
    "ddp-compiled": ("replicated", {"plan.stack": "pytorch-ddp-compiled"}),
    "ddp-one-machine": (
        "replicated",
        {
            "plan.stack": "pytorch-ddp", "plan.cluster": {"instance": "p4d.24xlarge", "instances": 1},
            "plan.parallel.data": 8, "plan.batch": {"global": 256, "micro": 8, "accumulation": 4},
        },
    ),
    "fsdp": ("fully-sharded", {"plan.stack": "pytorch-fsdp"}),
    "fsdp-compiled": ("fully-sharded", {"plan.stack": "pytorch-fsdp-compiled"}),
    "fsdp-machines": ("fully-sharded", {"plan.stack": "pytorch-fsdp", "plan.sharding_ranks": 8}),
    "zero-0": ("replicated", {"plan.stack": "deepspeed"}),
    "zero-1-named": ("fully-sharded", {"plan.stack": "deepspeed", "plan.state_sharding": "optimizer"}),
    "zero-3-named": ("fully-sharded", {"plan.stack": "deepspeed"}),
    "lora": ("replicated", {"plan.stack": "pytorch-ddp", "plan.fine_tuning": {"method": "lora"}}),
    "lora-recomputed": (
        "replicated",
        {"plan.stack": "pytorch-ddp", "plan.fine_tuning": {"method": "lora"}, "plan.recompute": "full"},
    ),
    "lora-zero-3": ("fully-sharded", {"plan.stack": "deepspeed", "plan.fine_tuning": {"method": "lora"}}),
    "qlora": ("replicated", {"plan.stack": "pytorch-ddp", "plan.fine_tuning": {"method": "qlora", "lora": {"rank": 64}}}),
    "qlora-zero-3": ("fully-sharded", {"plan.stack": "deepspeed", "plan.fine_tuning": {"method": "qlora"}}),
    "int8": (
        "replicated",
        {"plan.stack": "pytorch-ddp", "plan.fine_tuning": {"method": "qlora", "lora": {"base": "int8"}}},
    ),
    "dpo": (
        "fully-sharded",
        {
            "plan.stack": "deepspeed", "plan.fine_tuning": {"method": "full", "dpo": {}},
            "plan.stages": [{"first": 0, "layers": 28}],
        },
    ),
    "dpo-scores": (
        "replicated",
        {"plan.stack": "pytorch-ddp", "plan.fine_tuning": {"method": "lora", "dpo": {"reference": "precomputed"}}},
    ),
    "full": ("replicated", {"plan.stack": "pytorch-ddp", "job.training.method": "full"}),
    "full-packed": (
        "fully-sharded",
        {"plan.stack": "pytorch-fsdp", "job.training.method": "full", "job.data.lengths": "lengths.txt"},
    ),
    "full-zero-3": ("fully-sharded", {"plan.stack": "deepspeed", "job.training.method": "full"}),
    "lora-packed": (
        "replicated",
        {
            "plan.stack": "pytorch-ddp", "plan.cluster": {"instance": "p4d.24xlarge", "instances": 2},
            "plan.fine_tuning": {"method": "lora"}, "job.data.lengths": "lengths.txt",
        },
    ),
    "frozen": ("replicated", {"plan.stack": "pytorch-ddp", "plan.fine_tuning": {"method": "frozen"}}),
    "megatron": ("replicated", {"plan.stack": "megatron-core"}),
    "megatron-stages": (
        "replicated",
        {
            **STAGES, "plan.stack": "megatron-core",
            "plan.stages": [{"first": 0, "layers": 7}, {"first": 7, "layers": 7}],
        },
    ),
    "megatron-sharded": ("fully-sharded", {"plan.stack": "megatron-core"}),
    "megatron-zero-1": ("fully-sharded", {"plan.stack": "megatron-core", "plan.state_sharding": "optimizer"}),
    "megatron-volta": (
        "replicated", {"plan.stack": "megatron-core", "plan.cluster": VOLTA, "plan.precision": "fp16-mixed"},
    ),
    "megatron-scaled": (
        "replicated", {"plan.stack": "megatron-core", "plan.model": LLAMA, "plan.schedule": "none"},
    ),
    "executor": ("replicated", {"plan.stack": "trainyard-executor"}),
}  # fmt: skip
