"""Every command in the docs would be accepted as it is written, and is run by a test or says what it needs."""

import re
import shlex
from collections.abc import Iterable

import pytest
from typer.testing import CliRunner

from configs.loading.loader import load_config
from pipeline.ablation.spec import load_spec as load_ablation
from pipeline.cli import app
from tests.docs.command_checks import check, path_of
from tests.docs.page_commands import PAGES, PROXRL, ROOT, SOURCES, Command, commands_of, head_commands
from tests.pipeline.test_cli import all_commands

COMMANDS_TEST = "tests/integration/test_commands.py"
JOBS_TEST = "tests/jobs/test_readme_jobs.py"
# Command → the file of a test that runs it, and what of it stands there.
RUN_BY = {
    "proxrl train": ("tests/integration/test_loop.py", '"train"'),
    "proxrl eval": (COMMANDS_TEST, '"eval"'),
    "proxrl ablate": (JOBS_TEST, 'written("proxrl ablate")'),
    "proxrl report": (COMMANDS_TEST, '"report"'),
    "proxrl status": (COMMANDS_TEST, '"status"'),
    "proxrl audit": (COMMANDS_TEST, '"audit"'),
    "proxrl doctor": ("tests/integration/test_doctor_command.py", '"doctor"'),
    "proxrl config": ("tests/pipeline/test_cli.py", '"config"'),
    "proxrl replay": ("tests/integration/test_replay.py", '"replay", str(saved)'),
    "proxrl engines list": ("tests/docs/test_commands.py", '"engines", "list"'),
    "proxrl parity": (JOBS_TEST, 'written("proxrl parity")'),
    "proxrl engines create": (JOBS_TEST, 'written("proxrl engines create")'),
    "ray start": ("tests/integration/test_cluster.py", '"start"'),
    "make quickstart": (COMMANDS_TEST, "examples.quickstart.quickstart"),
    "make env": (".ci/run", "make env"),
    "make test": (".ci/run", "make test"),
    "make lint": (".ci/run", "make lint"),
    "make typecheck": (".ci/run", "make typecheck"),
    "make test-fast": (".ci/run", "make test"),
    "make faults": (".ci/run", "make faults"),
    "make jobs": (".ci/run", "make jobs"),
    "make smollm2": (JOBS_TEST, 'written("make smollm2")'),
    "make docs": ("tests/docs/test_docs.py", '"mkdocs", "build"'),
    "make bench": (COMMANDS_TEST, "rollout_speed"),
    "python examples/math/gsm8k_rl.py": (JOBS_TEST, 'written("python examples/math/gsm8k_rl.py"'),
    "python examples/own_reward/own_reward.py": (COMMANDS_TEST, "examples/own_reward/own_reward.py"),
    "python -m benchmarks.trainer_speed": ("tests/benchmarks/test_benchmarks.py", '"trainer_speed"'),
    "python -m benchmarks.prox_methods": ("tests/benchmarks/test_benchmarks.py", '"prox_methods"'),
    "python -m benchmarks.logprob_memory": ("tests/benchmarks/test_benchmarks.py", "logprob_memory"),
    "python -m benchmarks.rollout_speed": (COMMANDS_TEST, '"rollout_speed"'),
    "python -m benchmarks.weight_update": (COMMANDS_TEST, '"weight_update"'),
    "python -m benchmarks.async_speed": ("tests/benchmarks/test_loop_benchmarks.py", "async_speed"),
    "python -m examples.experimental.prox_approx.clock_errors": ("tests/examples/test_clock_errors.py", "clock_errors"),
    "python -m benchmarks.trl_speed": ("tests/benchmarks/test_loop_benchmarks.py", "trl_speed"),
}
# Command → why no test runs it. What can be checked without running it is.
NOT_RUN = {
    "git": "the address of the repository is the reader's",
    "cd": "goes with git",
    "ray get-auth-token": "writes into the home folder",
    "docker": "needs a Docker daemon",
    "python3.11 -m venv": "is Python's own",
}
GPU_NOTE = "GPU"


def documented() -> list[Command]:
    return [command for page in PAGES for command in commands_of(page)]


def name_of(command: Command) -> list[str]:
    """The names by which RUN_BY and NOT_RUN may know it, the longest first."""
    words = command.words
    if words[0] in PROXRL:
        return [" ".join(("proxrl", *path_of(words[1:])))]
    program = words[0].removeprefix(".venv/bin/")
    if program == "make":
        return [f"make {word}" for word in words[1:] if "=" not in word]
    return [" ".join([program, *words[1 : 1 + n]]) for n in (2, 1, 0)]


def needs_gpus(command: Command) -> bool:
    """Its config refuses to start without GPUs, or it installs the build for them."""
    words = command.words
    if words[0].endswith("pip"):
        return True
    if "--config" not in words or words[words.index("--config") + 1].isupper():
        return False
    file = words[words.index("--config") + 1]
    if "parity" in words:
        return "gpu" in file
    config = load_ablation(ROOT / file, [], None, []).config if "grid:" in (ROOT / file).read_text() else file
    job = load_config(config, [w for w in words if w.startswith("scheduler.") or w.startswith("model.dtype")])
    return job.scheduler.device == "gpu" or (job.scheduler.device == "auto" and job.model.dtype == "bfloat16")


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def require_accepted(commands: Iterable[Command]) -> None:
    for command in commands:
        try:
            check(command)
        except Exception as error:
            pytest.fail(f"{command}: {getattr(error, 'message', None) or error}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_would_be_accepted(page) -> None:
    require_accepted(commands_of(page))


def test_every_command_at_the_head_of_a_config_or_an_example_would_be_accepted() -> None:
    commands = [command for source in SOURCES for command in head_commands(source)]
    assert len(commands) > 10
    require_accepted(commands)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_is_run_by_a_test_or_says_what_it_needs(page) -> None:
    for command in commands_of(page):
        if not command.span and needs_gpus(command):
            assert GPU_NOTE in command.around, f"{command} needs GPUs, and nothing near it says so"
            continue
        names = name_of(command)
        known = [n for n in names if n in RUN_BY or n in NOT_RUN]
        every = command.words[0] == "make"  # of several targets each is a command of its own
        assert known == names if every else known, f"{command}: name the test that runs {names[0]!r} in RUN_BY"


@pytest.mark.parametrize("name", RUN_BY)
def test_the_test_that_runs_a_command_is_there(name: str) -> None:
    file, part = RUN_BY[name]
    assert part in (ROOT / file).read_text()


def test_no_entry_outlives_its_command() -> None:
    names = {name for command in documented() for name in name_of(command)}
    assert {n for n in (*RUN_BY, *NOT_RUN) if n.startswith(("proxrl", "make")) and n not in names} == set()


def test_the_pages_hold_the_commands_of_the_three_jobs() -> None:
    readme = [" ".join(c.words[:2]) for c in commands_of(ROOT / "README.md") if not c.span]
    assert {"make quickstart", "python examples/math/gsm8k_rl.py", "proxrl ablate", "proxrl parity"} <= set(readme)
    assert len(documented()) > 80


@pytest.mark.parametrize("path", all_commands(), ids=" ".join)
def test_the_example_in_the_help_would_be_accepted(path: list[str]) -> None:
    shown = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [*path, "--help"]).output
    example = re.search(r"Example: (proxrl .*?)(?:\n\s*\n|\Z)", shown, re.DOTALL)
    assert example is not None
    check(Command("--help", " ".join(example[1].split()), "", span=False))


def test_cheap_commands_run_as_they_are_written() -> None:
    lines = {c.line for c in documented() if not c.span and c.words[:2] == ["proxrl", "config"]}
    assert lines
    for line in lines:
        assert CliRunner().invoke(app, shlex.split(line, comments=True)[1:]).exit_code == 0
    assert CliRunner().invoke(app, ["engines", "list"]).exit_code == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("proxrl trian --config FILE", "no command 'trian'"),
        ("proxrl train --confg FILE", "--confg"),
        ("proxrl train", "config"),
        ("proxrl train --config configs/no_such.yaml", "does not exist"),
        ("proxrl train --config FILE actor.prox_logp_methd=reuse", "actor.prox_logp_method"),
        ("proxrl train --config FILE actor.prox_logp_method=reus", "reuse"),
        ("proxrl ablate --config examples/quickstart/quickstart.yaml --grid actor.eps_clp=0.1,0.2", "actor.eps_clip"),
        ("proxrl parity --config configs/parity/cpu.yaml --ot runs/parity", "--ot"),
        ("proxrl eval runs/x --samples many", "integer"),
        ("proxrl engines create vllm-0.8.5 --cpus", "--cpus"),
        ("make quickstrat", "quickstrat"),
        ("make quickstart SEDE=2", "SEDE"),
        ("python -m benchmarks.async_sped", "does not exist"),
        ("python -m benchmarks.async_speed --shrt", "--shrt"),
        ("python examples/math/gsm8k_rl.py --config configs/gsm8k_smollm2_cpu.yaml dataset.pth=x", "dataset.path"),
        ("docker build --target cpus -t proxrl:cpu .", "cpus"),
        ('.venv/bin/pip install -e ".[gpus]"', "gpus"),
    ],
)
def test_a_mistake_is_found(line: str, message: str) -> None:
    with pytest.raises(Exception, match=re.escape(message)):
        check(Command("page", line, "", span=False))


def test_a_gpu_command_is_told_from_others() -> None:
    def needs(line: str) -> bool:
        return needs_gpus(Command("page", line, "", span=False))

    assert needs("python examples/math/gsm8k_rl.py --config configs/gsm8k_qwen2.5_1.5b.yaml")
    assert needs("proxrl ablate --config configs/ablate/prox_logp_method_qwen2.5_1.5b.yaml")
    assert needs("proxrl parity --config configs/parity/gpu.yaml")
    assert not needs("proxrl train --config configs/gsm8k_smollm2_cpu.yaml")
    assert not needs("proxrl ablate --config configs/ablate/prox_logp_method.yaml")
    assert not needs("proxrl parity --config configs/parity/cpu.yaml")
