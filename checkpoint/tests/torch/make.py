"""Writes the files of this folder with PyTorch 2.15, as `torch.save` does: `python make.py`."""

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
with torch.no_grad():
    model[0].weight.copy_(torch.arange(6.0).reshape(2, 3) / 4)
state = model.state_dict()
state["half"] = torch.tensor([1.5, -2.0], dtype=torch.float16)
state["brain"] = torch.tensor([[0.5], [3.0]], dtype=torch.bfloat16)
state["row"] = state["0.weight"][1]
torch.save(state, "model.bin")
torch.save({"epoch": 3, "state_dict": state, "lr": 0.1}, "training.pt")
torch.save({"w": state["0.weight"].t()}, "transposed.pt")
torch.save({"w": state["0.weight"]}, "old.pt", _use_new_zipfile_serialization=False)
torch.save(model, "module.pt")
