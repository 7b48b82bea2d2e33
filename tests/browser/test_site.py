"""The documentation site, opened from disk without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[2]


def test_its_search_works_from_disk_and_without_a_network(chromium, tmp_path):
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    site = tmp_path / "site"
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", site]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(build, cwd=ROOT, check=True, env=quiet)
    with chromium.new_context(offline=True) as context:
        page, requests, complaints = context.new_page(), list[str](), list[str]()
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text))
        page.goto((site / "how-to" / "tune.html").as_uri())
        page.locator(".md-search__input").click()
        page.keyboard.type("timing")
        page.locator(".md-search-result__link[href*='threat-model.html']").first.click()
        page.wait_for_url("**/threat-model.html*", timeout=5_000)

    assert complaints == []
    assert all(url.startswith(site.as_uri()) for url in requests)
