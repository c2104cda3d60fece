"""Check the links of the built site: every file and every anchor they name is there; other hosts are only listed.

    python docs/tools/check_links.py site

Nothing is fetched. Scripts, styles, images and fonts from another host are errors: the site works without a network.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src"}


@dataclass
class Page(HTMLParser):
    """Anchors, links and loaded resources of one page."""

    anchors: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Start the parser with nothing found."""
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what this element names and what it points to."""
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        if tag in LOADED and LOADED[tag] in values:
            self.loaded.add(values[LOADED[tag]])
        if tag == "link" and "href" in values and values.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.add(values["href"])


@dataclass(frozen=True)
class Findings:
    """errors: one line each; external: (link, number of pages) of other hosts; counts of what was looked at."""

    errors: list[str]
    external: list[tuple[str, int]]
    num_pages: int
    num_links: int


def check_site(site: Path) -> Findings:
    """Look at every link of every page under a folder."""
    pages = {path: read_page(path) for path in sorted(site.rglob("*.html"))}
    errors: list[str] = []
    external: dict[str, int] = {}
    for path, page in pages.items():
        name = path.relative_to(site)
        for link in sorted(page.loaded):
            if is_external(link):
                errors.append(f"{name}: loads {link} from another host")
            elif not _target(site, path, link).exists():
                errors.append(f"{name}: loads {link}, which is not there")
        for link in sorted(page.links):
            if is_external(link):
                external[link] = external.get(link, 0) + 1
                continue
            target = _target(site, path, link)
            anchor = unquote(urlsplit(link).fragment)
            if not target.is_file():
                errors.append(f"{name}: {link} leads nowhere")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                errors.append(f"{name}: {link} names an anchor that is not there")
    return Findings(errors, sorted(external.items()), len(pages), sum(len(page.links) for page in pages.values()))


def read_page(path: Path) -> Page:
    """Anchors and links of a file."""
    page = Page()
    page.feed(path.read_text("utf-8"))
    return page


def is_external(link: str) -> bool:
    """Whether a link leaves the site."""
    parts = urlsplit(link)
    return bool(parts.netloc) or parts.scheme in ("http", "https", "mailto", "ftp")


def _target(site: Path, page: Path, link: str) -> Path:
    """The file that a link names; a folder stands for its index."""
    place = unquote(urlsplit(link).path)
    if not place:
        return page
    target = (site / place.lstrip("/") if place.startswith("/") else page.parent / place).resolve()
    return target / "index.html" if target.is_dir() else target


def main(folder: str) -> int:
    """Print what was found; 1 where a link is broken."""
    found = check_site(Path(folder).resolve())
    for line in found.errors:
        print(line)
    print(f"{found.num_pages} pages, {found.num_links} links, {len(found.errors)} errors; not checked, other hosts:")
    for link, count in found.external:
        print(f"  {link} ({count} pages)")
    return 1 if found.errors or not found.num_pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "site"))
