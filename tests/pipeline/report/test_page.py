"""The page as a file: what it holds, that it needs no network, and that nothing a model wrote can break it."""

import json
import re

import pytest

from pipeline.report.page import embedded_json, html_page, write_report
from pipeline.report.run_selection import select_runs
from tests.pipeline.report.run_files import seeded_run


def payload_of(page):
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(data[1])


def test_page_holds_every_run_and_needs_no_network(tmp_path):
    for seed, name in enumerate(("a", "b")):
        seeded_run(tmp_path / name, seed, 30)
    page = write_report(select_runs([tmp_path / "a", tmp_path / "b"]), tmp_path / "out.html").read_text()
    data = payload_of(page)
    assert [run["name"] for run in data["runs"]] == ["a", "b"]
    assert [row["key"] for row in data["config_diff"]] == ["actor.prox_logp_method", "run.name", "run.seed"]
    assert {curve["run"] for curve in data["curves"]["rl/reward"]} == {0, 1}
    assert "Permission is hereby granted" in page
    assert "default-src 'none'" in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page)
    assert not (tmp_path / "out.html.partial").exists()


def test_text_that_looks_like_markup_stays_text():
    hostile = "</script><script>alert(1)</script><!-- &amp;"
    text = embedded_json({"text": hostile})
    assert "<" not in text and ">" not in text
    assert json.loads(text) == {"text": hostile}
    page = html_page({"text": hostile}, title="<b>{data}</b>")
    assert "<b>" not in page.split("<body>")[0]
    assert "&lt;b&gt;{data}&lt;/b&gt;" in page
    assert payload_of(page) == {"text": hostile}


def test_a_page_that_cannot_be_written_is_one_sentence(tmp_path):
    seeded_run(tmp_path / "a", 0, 3)
    with pytest.raises(ValueError, match="cannot be written"):
        write_report(select_runs([tmp_path / "a"]), tmp_path / "missing" / "out.html")
