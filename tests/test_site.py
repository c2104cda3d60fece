"""The site builds without a warning, its links lead somewhere, and it needs no network."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]


def load_tool(name):
    specification = importlib.util.spec_from_file_location(name, ROOT / "docs" / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    return module


links = load_tool("check_links")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None:
        pytest.skip("the site needs mkdocs: pip install 'l2g2g[docs]'")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere(site):
    found = links.check_site(site)
    assert found.errors == []
    assert found.num_pages > 20
    assert found.num_links > 500


def test_reference_pages_hold_what_the_code_says(site):
    python = (site / "api.html").read_text()
    for name in ("l2g2g.estimators.estimator.L2G2G", "l2g2g.graphs.read.read_graph", "l2g2g.alignment.align.align"):
        assert f'id="{name}"' in python
    assert "accuracy hardly depends on it" in python  # the parameter patches, from the table of options
    errors = (site / "errors.html").read_text()
    assert "never run; save plain arrays" in errors.split('id="all-messages"')[1]
    assert "Where things are" in (site / "contributing.html").read_text()


def test_both_schemes_and_no_font_from_elsewhere(site):
    page = (site / "index.html").read_text()
    assert page.count("data-md-color-media") >= 2
    assert "fonts.googleapis.com" not in page
    styles = list(site.rglob("*.css"))
    assert len(styles) >= 2
    assert not any(re.search(r"url\([\"']?(https?:)?//", style.read_text("utf-8")) for style in styles)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ('<a href="two.html">', ""),
        ('<a href="two.html#there">', ""),
        ('<a href="two.html#gone">', "one.html: two.html#gone names an anchor that is not there"),
        ('<a href="three.html">', "one.html: three.html leads nowhere"),
        ('<a href="#here"><p id="here">', ""),
        ('<a href="#gone">', "one.html: #gone names an anchor that is not there"),
        ('<img src="gone.png">', "one.html: loads gone.png, which is not there"),
        ('<script src="https://x.org/a.js"></script>', "one.html: loads https://x.org/a.js from another host"),
        ('<link rel="stylesheet" href="//x.org/a.css">', "one.html: loads //x.org/a.css from another host"),
    ],
)
def test_the_checker_notices_what_is_broken(tmp_path, body, error):
    (tmp_path / "one.html").write_text(body)
    (tmp_path / "two.html").write_text('<h1 id="there">')
    assert links.check_site(tmp_path).errors == ([error] if error else [])


def test_other_hosts_are_listed_and_not_asked(tmp_path, capsys):
    (tmp_path / "one.html").write_text('<a href="https://x.org/page">')
    assert links.main(str(tmp_path)) == 0
    assert "https://x.org/page (1 pages)" in capsys.readouterr().out
    (tmp_path / "one.html").write_text('<a href="gone.html">')
    assert links.main(str(tmp_path)) == 1
