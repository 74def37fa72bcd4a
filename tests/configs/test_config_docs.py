"""docs/config.md is what the schema says."""

import subprocess
import sys
from pathlib import Path

from configs.keys import leaves

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_up_to_date() -> None:
    code = "import runpy; print(runpy.run_path('scripts/generate_config_docs.py')['page'](), end='')"
    made = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    page = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    assert page == made, "run python scripts/generate_config_docs.py"
    assert all(f"| `{key}` |" in page for key in leaves())
