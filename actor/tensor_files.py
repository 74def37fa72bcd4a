"""One way to write tensors to a file."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

_OS_ERROR = re.compile(r"\(os error (\d+)\)")


def save_tensors(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write a safetensors file that has the permissions of any new file; safetensors' own are the owner's alone.

    Raises OSError, naming the file, when it cannot be written.
    """
    path.touch()
    mode = path.stat().st_mode & 0o777  # what the umask leaves
    try:
        save_file(dict(tensors), path, metadata={"format": "pt"})
    except SafetensorError as error:
        if (found := _OS_ERROR.search(str(error))) is None:
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1])), str(path)) from error
    path.chmod(mode)
