"""`proxrl engines`: environments of the other engines that the migration study compares."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from pipeline.errors import one_sentence
from pipeline.fitting_table import FittingTable, plain_console
from rollout.environments.create import CreationFailed
from rollout.environments.create import create as create_environment
from rollout.environments.location import EnvironmentFolder, default_device, engines_root
from rollout.environments.specs import ENVIRONMENT_OF_ENGINE, SPECS, Device, EnvironmentSpec, find_spec
from rollout.environments.stamp import read_stamp, why_unusable

app = typer.Typer(
    no_args_is_help=True,
    help="Environments of other engines: vLLM 0.8.5 (V0) and 0.18.1 (V1), for rollout.engine and proxrl parity.",
    epilog="Example: proxrl engines create vllm-0.8.5 --cpu",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="vllm-0.8.5 or vllm-0.18.1.")]
OnCpu = Annotated[bool, typer.Option("--cpu", help="Builds for CPUs.")]
OnGpu = Annotated[bool, typer.Option("--gpu", help="Builds for NVIDIA GPUs.")]
Recreate = Annotated[bool, typer.Option("--recreate", help="Start over, even where it is ready.")]


@app.command()
def create(name: Name, cpu: OnCpu = False, gpu: OnGpu = False, recreate: Recreate = False) -> None:
    """Create an engine's environment, check it with one token, and say where it lies. Several GB and minutes.

    Without --cpu or --gpu it is made for what this machine has. Set PROXRL_ENGINES to keep it elsewhere than in
    ~/.cache/proxrl/engines.

    Example: proxrl engines create vllm-0.8.5 --cpu
    """
    console = plain_console()
    with one_sentence():
        if cpu and gpu:
            raise ValueError("--cpu and --gpu were both given; give one of them.")
        device: Device = "cpu" if cpu else "gpu" if gpu else default_device()
        try:
            create_environment(find_spec(name, device), console.print, recreate)
        except CreationFailed as error:
            console.print(str(error), style="red")
            raise typer.Exit(1) from None


@app.command("list")
def list_engines() -> None:
    """List the environments: which engine each serves, whether it is ready, and its versions.

    Example: proxrl engines list
    """
    console = plain_console()
    table = FittingTable(("environment", "rollout.engine", "state", "versions"))
    for spec in SPECS:
        table.add_row(f"{spec.name} --{spec.device}", _engine(spec), *_state(spec))
    console.print(table)
    console.print(f"in {engines_root()}, {_free(engines_root())} free")


def _engine(spec: EnvironmentSpec) -> str:
    return next(engine for engine, name in ENVIRONMENT_OF_ENGINE.items() if name == spec.name)


def _state(spec: EnvironmentSpec) -> tuple[str, str]:
    folder = EnvironmentFolder.of(spec)
    stamp = read_stamp(folder)
    reason = why_unusable(spec, folder)
    shown = ("torch", "transformers", "numpy", "ray")
    versions = ", ".join(f"{name} {stamp.versions[name]}" for name in shown if name in stamp.versions) if stamp else ""
    return ("ready" if reason is None else reason), versions


def _free(folder: Path) -> str:
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    return f"{shutil.disk_usage(existing).free / 2**30:.0f} GiB"
