"""The pages say what is there: keys, metrics, pinned arguments, engines."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from configs.checks.engines import ENGINES_ARE_V1
from configs.checks.pinned import PINNED_ENGINE_ARGS
from configs.keys import leaves
from pipeline.metrics.docs import PLACEHOLDERS, metric_doc

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
SECTIONS = "run|scheduler|model|dataset|reward|rollout|actor|train|eval|checkpoint|trackers|consistency"
KEY = re.compile(rf"(?:{SECTIONS})\.[a-z][a-z0-9_.]*")
METRIC = re.compile(
    r"(?:rl|eval|mismatch|ppo_actor|actor|buffer|timing|throughput|weight_sync|version_stats|behavior_correction"
    r"|advantages|pipeline)/[\w/{},…]+"
)


def page_ids(page):
    return page.name


def code_spans(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return re.findall(r"`([^`\n]+)`", text)


def is_key(name):
    """A key, a section, or an engine argument below vllm_kwargs."""
    return any(key == name or key.startswith(f"{name}.") or name.startswith(f"{key}.") for key in leaves())


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "config.md"], ids=page_ids)
def test_every_key_exists(page):
    text = page.read_text()
    if page.name == "migration.md":  # only our column: theirs looks alike
        text = "\n".join(row.split("|")[2] for row in text.splitlines() if row.startswith("| "))
        assert text.count("`") > 200
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    names = {m.group() for span in spans if ":" not in span or ": " in span for m in [KEY.match(span)] if m}
    assert {name for name in names if not is_key(name.rstrip("."))} == set()


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "metrics.md"], ids=page_ids)
def test_every_metric_exists(page):
    unknown = set()
    for span in code_spans(page):
        if not METRIC.fullmatch(span) or span.endswith((".py", ".yaml", "/")):
            continue
        name = span.replace("{k}", "1").replace("{method}", "loglinear")
        if name.endswith("…"):
            probe = name.removesuffix("…") + "abs_logp_diff"
            name = probe if name.startswith("mismatch") else name
        if metric_doc(name) is None and metric_doc(f"{name}/avg") is None and not (ROOT / f"{span}.py").exists():
            unknown.add(span)
    assert unknown == set()


def test_metrics_page_is_that_of_the_catalogue():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from generate_metric_docs import page
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    assert (ROOT / "docs" / "metrics.md").read_text() == page(), "run python scripts/generate_metric_docs.py"
    assert set(PLACEHOLDERS) == {"{k}", "{method}", "{avg,min,max}", "{,/min,/max}", "{bucket}"}


def test_pinned_arguments_and_engines_are_those_of_the_code():
    consistency = (ROOT / "docs" / "consistency.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \| [a-z]", consistency, re.MULTILINE))
    shown = {k: str(v).lower() if isinstance(v, bool) else v for k, v in PINNED_ENGINE_ARGS.items()}
    shown["hf_overrides"] = "{head_dtype: float32}"
    assert {k: rows.get(k) for k in shown} == shown
    architecture = (ROOT / "docs" / "architecture.md").read_text()
    assert set(re.findall(r"^\| `(vllm-[\w.-]+)` \|", architecture, re.MULTILINE)) == set(ENGINES_ARE_V1)


def test_the_map_of_the_code_leads_to_what_it_names():
    rows = re.findall(r"^\| [^|]+\? \| `([\w/.]+)` \| (`.+`) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert len(rows) > 12
    for file, names in rows:
        source = (ROOT / file).read_text()
        for name in re.findall(r"[\w.]+", names):
            *_, last = name.split(".")
            assert re.search(rf"^ *(?:def|async def|class) {last}\b|^{last}\b.* = ", source, re.MULTILINE), (file, name)


def test_pages_build_without_warnings_and_need_no_network(tmp_path):
    pytest.importorskip("mkdocs", reason="needs mkdocs-material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={"NO_MKDOCS_2_WARNING": "1", "PATH": ""}
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = list((tmp_path / "site").glob("*.html"))
    assert {p.stem for p in pages} >= {p.stem for p in PAGES}
    for page in pages:
        assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', page.read_text()), page.name
