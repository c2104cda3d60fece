"""The page of a run: as text, and in a real browser with its map, search, lists, lasso, keys and themes."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from l2g2g.reports import map_data
from l2g2g.reports.layout import make_columns
from l2g2g.reports.map_data import Partners
from l2g2g.reports.run_page import render_run
from l2g2g.training.state import History

COUNT_COLOURS = """(() => {
    const canvas = document.getElementById('map-points'), seen = {};
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    for (let i = 0; i < data.length; i += 4) {
        const colour = data.slice(i, i + 3).join(',');
        seen[colour] = (seen[colour] || 0) + 1;
    }
    return seen;
})()"""
COUNT_UNNAMED = """[...document.querySelectorAll('button, input, select, canvas[tabindex], [role=region]')].filter(
    (one) => !(one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length)).length"""
BACKGROUND = "getComputedStyle(document.documentElement).backgroundColor"
VIEW = "[pointMap.centreX, pointMap.centreY, pointMap.scale]"


def write_page(record, folder, **options):
    path = folder / "report.html"
    path.write_text(render_run(record, {"pca": record.vectors[:, :2]}, **options), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def page(record, tmp_path_factory):
    rows = [{"name": "embed", "auc": 0.5, "ap": None, "seconds": {"total": 1}}, {"name": "b", "seconds": {"total": 2}}]
    return write_page(record, tmp_path_factory.mktemp("page"), others=rows)


def test_nothing_is_fetched_and_everything_is_escaped(page, hostile):
    text = page.read_text()
    assert re.findall(r"(?:src|href)=\"(?!#|data:)[^\"]*\"", text) == []
    assert not re.search(r"@import|url\(|https://", text)
    assert hostile not in text
    policy = re.search(r"Content-Security-Policy\" content=\"([^\"]*)\"", text)[1]
    assert policy.startswith("default-src 'none';")
    assert "connect-src" not in policy
    assert "unsafe-inline" not in policy.split("script-src")[1]


def test_it_loads_without_errors_and_names_stay_text(map_page, page, hostile):
    map_page.open(page)
    assert map_page.troubles() == []
    assert map_page.run("document.title") == f"{hostile}: l2g2g"
    assert map_page.find("<script>") == [hostile]
    map_page.press("ArrowDown")
    map_page.press("Enter")
    map_page.wait_for_lists()
    assert map_page.texts("#map-chosen") == [hostile]
    assert map_page.texts("#map-node dd")[:2] == [hostile, "patch 1"]
    map_page.run("document.getElementById('map-view').click()")
    assert hostile in map_page.texts("#map-table th")
    assert map_page.run("window.hacked") is None
    assert map_page.troubles() == []


def test_points_are_on_the_map_in_their_colours(map_page, page, record):
    map_page.open(page)
    seen = map_page.run(COUNT_COLOURS)
    for colour in ("0,119,187", "238,119,51", "0,153,136"):  # of the three labels
        assert seen[colour] > 20
    assert seen["255,255,255"] > 0.5 * sum(seen.values())
    assert map_page.texts("#map-legend .entry-name")[:2] == ["left", "right"]
    map_page.set("map-colour", "degree")
    low, *_, next_highest, highest = sorted(record.degrees.tolist())
    assert highest > next_highest
    assert map_page.texts(".ramp-ends span") == [str(low), f"{next_highest} and more, up to {highest}"]


def test_a_click_lists_neighbours_and_links(map_page, page, record):
    map_page.open(page)
    map_page.click_node(7)
    assert map_page.texts("#map-chosen") == ["node 7"]
    names, partners, row = record.names(), Partners(record), np.array([7])
    for kind, nodes in (("neighbours", partners.neighbours(row)[0]), ("links", partners.links(row)[0])):
        assert map_page.texts(f"#map-{kind} .node") == [names[node] for node in nodes[0]]
    nearest = names[partners.neighbours(row)[0][0, 0]]
    map_page.browser.click("#map-neighbours .node")
    map_page.wait_for_lists()
    assert map_page.texts("#map-chosen") == [nearest]
    assert map_page.troubles() == []


@pytest.mark.parametrize("kind", ["inner", "cosine", "distance", "product", "asymmetric"])
def test_the_page_finds_the_same_from_its_vectors(map_page, with_decoder, tmp_path, monkeypatch, kind):
    record = with_decoder(kind)
    monkeypatch.setattr(map_data, "_MAX_NODES_FOR_LISTS", 0)
    map_page.open(write_page(record, tmp_path))
    partners, rows = Partners(record), np.array([0, 11, 39])
    expected = {"neighbours": partners.neighbours(rows), "links": partners.links(rows)}
    answers = map_page.run(f"Promise.all({rows.tolist()}.map((row) => state.partnersOf(row)))")
    for place, answer in enumerate(answers):
        for name, (nodes, values) in expected.items():
            found, scores = zip(*answer[name], strict=True)
            assert np.allclose(scores, values[place], atol=2e-3), name
            assert np.mean(np.array(found) == nodes[place]) >= 0.8  # places change where values are nearly equal
    assert map_page.troubles() == []


def test_a_lasso_selects_and_exports(map_page, page, record, tmp_path):
    map_page.open(page)
    middle = (map_page.place_of(0)[0] + map_page.place_of(39)[0]) / 2
    _, top, right, bottom = map_page.box()
    top, right, bottom = top + 2, right - 2, bottom - 2
    rows = map_page.lasso([(middle, top), (right, top), (right, bottom), (middle, bottom)])
    places = [map_page.place_of(row) for row in range(40)]
    assert rows == [row for row, (x, y) in enumerate(places) if middle < x < right and top < y < bottom]
    assert 5 < len(rows) < 40
    names = [record.names()[row] for row in rows]
    assert map_page.texts("#map-table tbody th") == names
    assert map_page.texts("#map-status") == [f"{len(rows)} nodes are selected."]
    assert map_page.save("#map-save-ids", tmp_path) == names
    lines = map_page.save("#map-save-table", tmp_path)
    assert lines[0] == "id,label,patch,degree,residual"
    assert lines[1].startswith(f"{names[0]},left,patch 0,{record.degrees[rows[0]]},")
    assert len(lines) == len(rows) + 1
    assert map_page.troubles() == []


def test_keys_move_zoom_choose_and_clear(map_page, page):
    map_page.open(page)
    map_page.run("document.getElementById('map-overlay').focus()")
    before = map_page.run(VIEW)
    for key in ("ArrowRight", "ArrowDown", "+"):
        map_page.press(key)
    assert all(new > old for new, old in zip(map_page.run(VIEW), before, strict=True))
    map_page.press("0")
    assert map_page.run(VIEW) == before
    map_page.press("Enter")
    map_page.wait_for_lists()
    map_page.press("Escape")
    map_page.browser.wait_for("document.getElementById('map-chosen') === null")
    map_page.browser.click("#map-view")
    assert len(map_page.run("state.selected")) > 20
    map_page.browser.click("#map-legend .entry")
    assert map_page.run("pointMap.emphasis.reduce((a, b) => a + b)") == 20  # of the largest class
    assert map_page.troubles() == []


def test_mouse_and_wheel_move_and_zoom(map_page, page):
    map_page.open(page)
    left, top, right, bottom = map_page.box()
    middle = ((left + right) / 2, (top + bottom) / 2)
    before = map_page.run(VIEW)
    wheel = {"type": "mouseWheel", "x": middle[0], "y": middle[1], "deltaX": 0, "deltaY": -120}
    map_page.browser.drag([middle, (middle[0] + 30, middle[1] + 20), (middle[0] + 60, middle[1] + 40)])
    moved = map_page.run(VIEW)
    assert (moved[0] < before[0], moved[1] < before[1], moved[2]) == (True, True, before[2])
    assert map_page.run("state.chosen") == -1  # a drag is no click
    map_page.run("pointMap.overlay.focus()")
    map_page.browser.call("Input.dispatchMouseEvent", **wheel)
    map_page.browser.wait_for(f"pointMap.scale > {moved[2]}")
    map_page.run("pointMap.overlay.blur()")
    before, scrolled = map_page.run(VIEW), map_page.run("scrollY")
    map_page.browser.call("Input.dispatchMouseEvent", **wheel)
    map_page.browser.wait_for(f"scrollY < {scrolled}")
    assert map_page.run(VIEW) == before  # without the focus the page scrolls
    assert map_page.troubles() == []


def test_two_fingers_zoom(map_page, page):
    map_page.open(page, width=400, height=800)
    left, top, right, bottom = map_page.box()
    x, y = (left + right) / 2, (top + bottom) / 2
    before = map_page.run(VIEW)
    for kind, apart in (("touchStart", 20), ("touchMove", 40), ("touchMove", 60), ("touchEnd", None)):
        points = [] if apart is None else [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        map_page.browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
    assert map_page.run(VIEW)[2] > 1.5 * before[2]
    assert map_page.run("state.chosen") == -1
    assert map_page.troubles() == []


def test_light_dark_phone_and_paper(map_page, page):
    map_page.open(page, theme="dark")
    assert map_page.run(BACKGROUND) == "rgb(22, 24, 28)"
    map_page.browser.click("#theme")
    assert map_page.run(BACKGROUND) == "rgb(255, 255, 255)"
    map_page.open(page, width=360, height=640)
    assert map_page.run("document.documentElement.scrollWidth") <= 360
    assert map_page.run("document.getElementById('map-points').clientWidth") > 280
    assert map_page.run(COUNT_UNNAMED) == 0
    map_page.open(page, theme="dark")
    assert map_page.browser.print().startswith(b"%PDF")
    assert map_page.run(BACKGROUND) == "rgb(22, 24, 28)"  # light on paper, and back again
    assert map_page.troubles() == []


def test_a_window_of_another_shape_shows_as_much(map_page, page):
    map_page.open(page, width=1200, height=900)
    wide = map_page.run("[pointMap.width, pointMap.scale]")
    size = {"width": 700, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    map_page.browser.call("Emulation.setDeviceMetricsOverride", **size)
    map_page.browser.wait_for(f"pointMap.width < {wide[0]}")
    places = [map_page.run(f"pointMap.toScreen({row})") for row in range(40)]
    inside = map_page.run("[pointMap.width, pointMap.height]")
    assert np.mean([0 <= x <= inside[0] and 0 <= y <= inside[1] for x, y in places]) > 0.9
    map_page.run("pointMap.zoom(1.5)")
    scale = map_page.run("pointMap.scale")
    map_page.browser.call("Emulation.setDeviceMetricsOverride", **{**size, "width": 640})
    map_page.browser.wait_for(f"pointMap.width < {inside[0]}")
    assert map_page.run("pointMap.scale") == scale  # what somebody zoomed into stays


def test_a_bare_record_has_a_page_too(map_page, record, tmp_path):
    bare = replace(
        record,
        **dict.fromkeys(("degrees", "home", "node_ids", "classes", "labels", "residuals", "edges", "separation")),
        patches=replace(record.patches, sizes=[40], pairs=[], overlaps=[], pair_residuals=[], patch_residuals=[]),
        history=History(),
        row={},
        command="",
        versions={},
    )
    map_page.open(write_page(bare, tmp_path))
    assert map_page.find("12") == ["12"]
    map_page.press("Enter")
    map_page.wait_for_lists()
    assert map_page.texts("#map-chosen") == ["12"]
    assert map_page.troubles() == []


@pytest.fixture(scope="module")
def rich_page(record, tmp_path_factory, hostile):
    """Two projections, clusters, and columns of a table: text, numbers with a gap, another value for each node."""
    columns = {
        hostile: np.array(["a", "b", "", "b"] * 10, dtype=object),
        "size": np.where(np.arange(40) == 3, np.nan, np.arange(40.0)),
        "remark": np.array([f"remark {row}" for row in range(40)], dtype=object),
    }
    rich = replace(record, columns=columns)
    clusters = np.repeat([0, 1], 20)
    path = tmp_path_factory.mktemp("rich") / "report.html"
    places = {"tsne": record.vectors[:, 1:3], "pca": record.vectors[:, :2]}
    path.write_text(render_run(rich, places, make_columns(rich, clusters, ["one", "two"])), encoding="utf-8")
    return path


def test_projections_are_switched(map_page, rich_page):
    map_page.open(rich_page)
    assert map_page.texts("#map-projection option") == ["t-SNE (neighbours)", "PCA (variance)"]
    assert map_page.texts("#map-about")[0].startswith("t-SNE: nodes that are near")
    before = map_page.run("pointMap.toScreen(5)")
    map_page.set("map-projection", "pca")
    assert map_page.texts("#map-about")[0].startswith("PCA:")
    assert re.search(r"Of the 15 nearest nodes \d+ % are near on this map.$", map_page.texts("#map-about")[0])
    assert map_page.run("pointMap.toScreen(5)") != before
    map_page.click_node(5)
    assert map_page.texts("#map-chosen") == ["node 5"]
    assert map_page.troubles() == []


def test_every_column_colours_and_is_told(map_page, rich_page, hostile):
    map_page.open(rich_page)
    offered = ["Label", hostile, "size", "remark", "Cluster", "Patch", "Degree", "Residual", "none"]
    assert map_page.texts("#map-colour option") == offered
    map_page.set("map-colour", "column-0")
    assert map_page.texts("#map-legend .entry") == ["b20", "a10", "not known10"]
    assert map_page.run("state.classNames.map(({ name }) => name)") == ["b", "a"]  # names on the map
    map_page.set("map-colour", "column-1")
    assert map_page.texts(".ramp-ends span") == ["0", "38 and more, up to 39"]
    assert map_page.texts("#map-legend .hint") == ["grey: 1 not known"]
    assert map_page.run("state.classNames") == []
    map_page.set("map-colour", "cluster")
    assert map_page.texts("#map-legend .entry-name") == ["one", "two"]
    map_page.run("document.getElementById('map-names').click()")
    assert map_page.run("state.classNames") == []
    x, y = map_page.place_of(3)
    map_page.browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    map_page.browser.wait_for("!document.getElementById('map-tip').hidden")
    told = dict(zip(map_page.texts("#map-tip dt"), map_page.texts("#map-tip dd"), strict=True))
    assert map_page.texts("#map-tip b") == ["node 3"]
    assert (told[hostile], told["size"], told["remark"], told["Cluster"]) == ("b", "not known", "remark 3", "one")
    assert map_page.run("window.hacked") is None
    assert map_page.troubles() == []


def test_a_link_leads_to_a_node(map_page, rich_page, hostile):
    map_page.browser.open(f"{rich_page.as_uri()}#node=node%2017")
    map_page.wait_for_lists()
    assert map_page.texts("#map-chosen") == ["node 17"]
    map_page.run(f"location.hash = '#node=' + encodeURIComponent({json.dumps(hostile)})")
    map_page.browser.wait_for(f"document.getElementById('map-chosen').textContent === {json.dumps(hostile)}")
    map_page.show("map-overlay")
    map_page.click_node(7)
    assert map_page.run("decodeURIComponent(location.hash)") == "#node=node 7"
    map_page.run("location.hash = '#node=nobody'")
    map_page.browser.wait_for("document.getElementById('map-status').textContent.includes('not in the embedding')")
    map_page.browser.click("#map-clear")
    assert map_page.run("location.hash") == ""
    assert map_page.troubles() == []


@pytest.mark.slow
def test_size_opacity_and_density_change_what_is_drawn(map_page, rich_page):
    map_page.open(rich_page)
    map_page.set("map-colour", "")
    blue = "0,119,187"

    def count():
        map_page.run("pointMap.drawNow()")
        return map_page.run(COUNT_COLOURS).get(blue, 0)

    usual = count()
    map_page.set("map-size", "2.5")
    assert count() > 2 * usual > 0
    map_page.set("map-opacity", "0.4")
    assert count() < 0.2 * usual  # mixed with the paper
    map_page.set("map-opacity", "1")
    map_page.set("map-mode", "density")
    count()
    assert map_page.run("pointMap.isDensity")
    assert len(map_page.run(COUNT_COLOURS)) > 5  # shades
    map_page.set("map-mode", "auto")
    count()
    assert not map_page.run("pointMap.isDensity")  # forty points are no crowd
    map_page.run("Object.defineProperty(pointMap, 'numPoints', { value: 1e6 })")
    assert map_page.run("pointMap.isCrowded()")
    map_page.run("pointMap.scale *= 10")
    assert not map_page.run("pointMap.isCrowded()")  # near enough to see single ones
    assert [one for one in map_page.troubles() if "Canvas2D" not in str(one)] == []  # that this test reads pixels often


def test_what_does_not_concern_the_run_is_not_shown(record, tmp_path):
    def sections(shown):
        return re.findall(r'<section id="(\w+)"', write_page(shown, tmp_path).read_text())

    assert sections(record) == ["summary", "map", "scores", "training", "patches", "details"]
    unaligned = replace(record, settings={**record.settings, "rotate": None})
    text = write_page(unaligned, tmp_path).read_text()
    assert "patches" in sections(unaligned)
    assert "esidual" not in text.split("<script>")[0]
    chosen = {"vectors": "spectral", "validation_auc": {"spectral": 0.95, "trained": 0.93}}
    spectral = replace(record, row={**record.row, "chosen": chosen})
    assert sections(spectral) == ["summary", "map", "scores", "details"]
    assert "preferred to the trained ones: AUC 95.00 % against 93.00 %" in write_page(spectral, tmp_path).read_text()
