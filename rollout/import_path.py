"""Callables named by import path: `package.module:function`, or `path/to/file.py:function` for a script."""

import ast
import difflib
import functools
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from configs.errors import refused


def import_callable(import_path: str, key: str) -> Callable[..., Any]:
    """The callable that `import_path` names; `key` is the config key that holds it.

    Raises:
        ConfigError: when the path has another form, its module is missing or fails to import, or it names nothing
            that can be called.
    """
    module_name, colon, name = import_path.rpartition(":")
    if not colon or not module_name or not name:
        raise refused(key, import_path, "names no function", "write it as package.module:function or file.py:function")
    module = _import_module(module_name, import_path, key)
    try:
        found = functools.reduce(getattr, name.split("."), module)
    except AttributeError:
        callables = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        near = difflib.get_close_matches(name, callables, n=1) or callables[:5]
        remedy = f"it has {', '.join(near)}" if near else "define it there"
        raise refused(key, import_path, f"names {name!r}, which {module_name} does not have", remedy) from None
    if not callable(found):
        raise refused(key, import_path, f"names a {type(found).__name__}, not a function", "name a function")
    return found


def check_arguments(
    function: Callable[..., Any], arguments: tuple[str, ...], import_path: str, key: str, optional: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Refuse a function that cannot be called with `arguments` in this order.

    Returns those of `optional` that it has parameters for; it is to be called with these by keyword.

    Raises:
        ConfigError: showing the signature it has and the one it needs.
    """
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some built-in callables do not tell
        return ()
    taken = tuple(name for name in optional if name in signature.parameters)
    try:
        signature.bind(*arguments, **dict.fromkeys(taken))
    except TypeError as error:
        raise refused(
            key,
            import_path,
            f"cannot be called as f({', '.join(arguments)}): {error}; its signature is {signature}",
            f"define it as f({', '.join(arguments)})",
        ) from None
    return taken


def import_path_of(function: Callable[..., Any]) -> str:
    """The import path by which another process finds `function`, also when it is defined in the running script.

    Raises:
        ValueError: for lambdas and functions defined inside others, which have none, and in a script that would start
            the run again when it is imported.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module is None or name is None or "<" in name:
        raise ValueError(f"{function!r} has no import path; define it with def at the top level of a module")
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        if file is None:
            raise ValueError(f"{name} is defined in an interactive session; write it into a file")
        if not _has_guard(Path(file)):
            raise ValueError(
                f"{file} starts the run when it is imported, as other processes must to find {name}; "
                'put what it starts under `if __name__ == "__main__":`'
            )
        module = str(Path(file).resolve())
    return f"{module}:{name}"


def _has_guard(script: Path) -> bool:
    """Whether a script keeps anything from running when it is imported."""
    tests = (node.test for node in ast.parse(script.read_bytes()).body if isinstance(node, ast.If))
    return any(isinstance(part, ast.Name) and part.id == "__name__" for test in tests for part in ast.walk(test))


def _import_module(module_name: str, import_path: str, key: str) -> ModuleType:
    try:
        return _load_file(Path(module_name)) if module_name.endswith(".py") else importlib.import_module(module_name)
    except FileNotFoundError as error:
        raise refused(key, import_path, f"names a file that does not exist ({module_name})", "correct it") from error
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if f"{module_name}.".startswith(f"{missing}."):
            remedy = "correct it, or run from the folder that holds the module"
            raise refused(key, import_path, f"names the module {missing!r}, which is not there", remedy) from error
        raise refused(
            key, import_path, f"needs the module {missing!r}, which is not installed", f"install {missing}"
        ) from error
    except (Exception, SystemExit) as error:  # user code runs here and may raise anything
        raise refused(
            key, import_path, f"fails to import ({type(error).__name__}: {error})", f"fix {module_name}"
        ) from error


def _load_file(file: Path) -> ModuleType:
    file = file.expanduser().resolve()
    name = f"{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    if not file.is_file():
        raise FileNotFoundError(file)
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # so that the script finds the modules beside it, as when it is run
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
