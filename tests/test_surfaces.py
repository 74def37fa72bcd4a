"""Calls that no package may hold: what runs code from a file, listens beyond loopback, or loses a cancellation."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("actor", "benchmarks", "configs", "examples", "exchange", "pipeline", "rollout", "scripts")

UNPICKLERS = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
# Arguments of a reward function, from a rollout worker to a process that it started, over a pipe between the two.
MAY_IMPORT = {"rollout/rewards/wire.py": {"pickle"}, "rollout/rewards/worker.py": {"pickle"}}
LOADS_CODE = {
    "read_pickle": "pandas' pickles run code",
    "load_checkpoint": "DeepSpeed's checkpoints are pickles; actor.trainer_state writes none",
    "unsafe_load": "YAML tags run code",
    "full_load": "YAML tags run code",
    "load_all": "YAML tags run code",
}
SAFE_YAML = {"SafeLoader", "CSafeLoader", "YamlLoader"}


def findings(source: str, name: str = "x.py") -> Iterator[str]:
    """What is wrong with a file, a sentence each."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            for module in {m.split(".")[0] for m in imported} & UNPICKLERS - MAY_IMPORT.get(name, set()):
                yield f"{name}:{node.lineno} imports {module}"
        elif isinstance(node, ast.Call):
            yield from (f"{name}:{node.lineno} {problem}" for problem in _call(node))
        elif isinstance(node, ast.Constant) and node.value in ("0.0.0.0", "::"):
            yield f"{name}:{node.lineno} names every network interface"


def _call(node: ast.Call) -> Iterator[str]:
    name = ast.unparse(node.func)
    module, _, function = name.rpartition(".")
    given = {k.arg: k.value for k in node.keywords if k.arg is not None}
    # transformers and vLLM load a model's .bin files, which are pickles, with weights_only unless told otherwise.
    if (name == "torch.load" and "weights_only" not in given) or not _is(given.get("weights_only", _TRUE), True):
        yield "loads pickles without weights_only=True"
    if function == "load" and module in ("np", "numpy") and not _is(given.get("allow_pickle", _FALSE), False):
        yield "numpy.load with pickles"
    if function == "load" and module == "yaml":
        loader = given.get("Loader") or (node.args[1] if len(node.args) > 1 else None)
        if loader is None or ast.unparse(loader).rpartition(".")[2] not in SAFE_YAML:
            yield "yaml.load without a safe loader"
    if function in LOADS_CODE and module:
        yield f"{name}: {LOADS_CODE[function]}"
    if name in ("eval", "exec"):
        yield f"{name} runs text as code"
    if _is(given.get("trust_remote_code"), True):
        yield "trusts remote code without being asked"
    if name == "asyncio.wait_for":
        yield "asyncio.wait_for loses a cancellation that comes with the result; use asyncio.timeout"


_TRUE, _FALSE = ast.Constant(True), ast.Constant(False)


def _is(value: ast.expr | None, wanted: bool) -> bool:
    return isinstance(value, ast.Constant) and value.value is wanted


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_holds_such_a_call(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    assert [f for path in files for f in findings(path.read_text(), str(path.relative_to(ROOT)))] == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "import torch\nx = torch.load('f')",
        "x = torch.load('f', weights_only=False)",
        "AutoModel.from_pretrained(path, weights_only=False)",
        "x = np.load('f', allow_pickle=True)",
        "x = yaml.load(text)",
        "x = yaml.load(text, Loader=yaml.UnsafeLoader)",
        "x = yaml.unsafe_load(text)",
        "x = pd.read_pickle('f')",
        "engine.load_checkpoint('d')",
        "exec(text)",
        "AutoModel.from_pretrained(path, trust_remote_code=True)",
        "server.bind(('0.0.0.0', 1))",
        "await asyncio.wait_for(x, 1)",
    ],
)
def test_each_kind_is_found(source: str) -> None:
    assert len(list(findings(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "x = torch.load('f', weights_only=True)",
        "x = np.load('f')",
        "x = yaml.load(text, Loader=yaml.SafeLoader)",
        "condition.wait_for(ready)",
        "AutoModel.from_pretrained(path, trust_remote_code=model.trust_remote_code)",
    ],
)
def test_safe_forms_pass(source: str) -> None:
    assert list(findings(source)) == []


def test_the_yaml_loader_of_the_configs_is_a_safe_one() -> None:
    import yaml

    from configs.loading.yaml_file import YamlLoader

    assert issubclass(YamlLoader, yaml.SafeLoader | getattr(yaml, "CSafeLoader", yaml.SafeLoader))
