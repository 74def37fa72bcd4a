"""One way to write tensors to a file."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file


def save_tensors(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write a safetensors file that has the permissions of any new file; safetensors' own are the owner's alone.

    Raises OSError when it cannot be written.
    """
    path.touch()
    mode = path.stat().st_mode & 0o777  # what the umask leaves
    save_file(dict(tensors), path, metadata={"format": "pt"})
    path.chmod(mode)
