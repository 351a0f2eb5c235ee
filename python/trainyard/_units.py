"""Which modules of a model are its layers: the units that pipeline stages are made of."""

from __future__ import annotations

from typing import Any

# So many layers are enough, so that those inside a stage of several are not looked for.
_ENOUGH = 8


def units(root: Any) -> list[str]:
    """Returns the paths of the modules that are layers: the elements of lists of modules. Where these are few, elements that
    hold lists of their own are stages, whose elements are layers. Of a model without lists they are its parts.
    """
    if _is_of_branches(root):
        return _parts(root)
    found = _in_lists(root, "", 0)
    for depth in range(1, 4):
        if len(found) >= _ENOUGH:
            break
        found = _in_lists(root, "", depth)
    return found or _parts(root)


def _is_of_branches(root: Any) -> bool:
    """Returns True if lists are the branches inside layers, as in an Inception network: they are many and short."""
    lists = [len(list(module.children())) for path, module in root.named_modules() if _is_outermost(root, path, module)]
    return len(lists) > 2 * _ENOUGH and sum(lists) < 4 * len(lists)


def _is_outermost(root: Any, path: str, module: Any) -> bool:
    """Returns True for a list that is not inside another one."""
    parents = path.split(".")[:-1]
    return _is_list(module) and not any(_is_list(root.get_submodule(".".join(parents[:end]))) for end in range(len(parents) + 1))


def _parts(root: Any) -> list[str]:
    """Returns the modules that a model consists of; of one that only wraps another those of that."""
    prefix = ""
    while len(children := list(root.named_children())) == 1:
        prefix, root = f"{prefix}{children[0][0]}.", children[0][1]
    return [f"{prefix}{name}" for name, _ in children]


def _in_lists(module: Any, path: str, depth: int) -> list[str]:
    """Returns the layers inside a module, looking into stages within stages to a depth."""
    found: list[str] = []
    for name, child in module.named_children():
        own = f"{path}.{name}" if path else name
        listed = _is_list(module)
        if listed and not _is_list(child) and not (depth and _is_stage(child)):
            found.append(own)
        elif listed and _is_list(child) and not any(_has_parts(inner) for inner in child.children()):
            found.append(own)
        else:
            found += _in_lists(child, own, depth - (listed and not _is_list(child)))
    return found


def _is_list(module: Any) -> bool:
    import torch

    return isinstance(module, (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict))


def _is_stage(module: Any) -> bool:
    """Returns True for a module that holds a list of at least two modules of a kind, experts aside."""
    return any(_is_stack(name, inner) for name, inner in module.named_modules())


def _is_stack(name: str, module: Any) -> bool:
    if not _is_list(module) or name.endswith("experts"):
        return False
    children = list(module.children())
    kinds: set[object] = {type(child) for child in children}
    return len(kinds) == 1 and len(children) >= 2 and _has_parts(children[0]) and not _is_list(children[0])


def _has_parts(module: Any) -> bool:
    return any(True for _ in module.children())
