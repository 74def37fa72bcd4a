"""Weight files have the permissions of every other file that the user writes."""

import errno
import os
import resource
import stat

import pytest
import torch
from safetensors.torch import load_file

from actor.tensor_files import save_tensors


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_the_umask_decides_who_may_read(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        save_tensors({"a": torch.arange(3)}, tmp_path / "a.safetensors")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.safetensors").stat().st_mode) == mode
    assert load_file(tmp_path / "a.safetensors")["a"].tolist() == [0, 1, 2]


def test_a_file_that_cannot_be_written_is_an_os_error_that_names_it(tmp_path):
    path = tmp_path / "a.safetensors"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError) as failure:
            save_tensors({"a": torch.zeros(1000)}, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert failure.value.errno == errno.EFBIG and failure.value.filename == str(path)
