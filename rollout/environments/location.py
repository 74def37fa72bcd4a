"""Where the environments of other engines lie: $PROXRL_ENGINES, else ~/.cache/proxrl/engines."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from rollout.environments.specs import Device, EnvironmentSpec

ROOT_VARIABLE = "PROXRL_ENGINES"


def engines_root() -> Path:
    """Folder that holds one environment a subfolder."""
    given = os.environ.get(ROOT_VARIABLE)
    return Path(given).expanduser().absolute() if given else Path.home() / ".cache" / "proxrl" / "engines"


@dataclass(frozen=True)
class EnvironmentFolder:
    """Paths inside one environment."""

    root: Path

    @staticmethod
    def of(spec: EnvironmentSpec) -> "EnvironmentFolder":
        return EnvironmentFolder(engines_root() / spec.key)

    @property
    def python(self) -> Path:
        return self.root / "bin" / "python"

    @property
    def lib(self) -> Path:
        return self.root / "lib"

    @property
    def stamp(self) -> Path:
        return self.root / "proxrl-engine.json"

    @property
    def source(self) -> Path:
        return self.root / "proxrl-source"

    @property
    def lock(self) -> Path:
        return self.root.with_name(self.root.name + ".lock")

    @property
    def site_packages(self) -> Path:
        found = sorted(self.lib.glob("python3.*/site-packages"))
        assert found, f"{self.root} holds no Python environment"
        return found[0]


def default_device() -> Device:
    """gpu where NVIDIA's driver answers and its GPUs are not hidden, else cpu."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return "cpu"
    return "gpu" if shutil.which("nvidia-smi") and Path("/dev/nvidiactl").exists() else "cpu"
