"""Every code block of README and docs runs, or says why not; generated pages are those of today's code."""

import importlib.util
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from l2g2g.__main__ import main
from l2g2g.graphs.block_model import BlockModel
from l2g2g.graphs.write import write_embedding

ROOT = Path(__file__).parents[1]
SHORT = {"embed": ["--epochs", "3"], "evaluate": ["--epochs", "3"]}  # unless a page says otherwise


def load_tool(name):
    specification = importlib.util.spec_from_file_location(name, ROOT / "docs" / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    return module


blocks = load_tool("code_blocks")
PAGES = blocks.list_pages()
BLOCKS = {path: blocks.read_blocks(path) for path in PAGES}
RUN = [path for path in PAGES if any(each.language in blocks.RUNNABLE and not each.not_run for each in BLOCKS[path])]


def page_name(path):
    return path.relative_to(ROOT).as_posix()


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A folder with small stand-ins of the files that pages take for granted."""
    monkeypatch.chdir(tmp_path)
    graph = BlockModel.planted(num_blocks=4, block_size=60, inside=0.2, outside=0.01).sample(0, name="stand-in")
    arcs, words = graph.adjacency, sp.csr_array(np.random.default_rng(0).integers(0, 2, (240, 30)).astype(np.float32))
    np.savez(
        "cora_ml.npz",
        adj_data=arcs.data,
        adj_indices=arcs.indices,
        adj_indptr=arcs.indptr,
        adj_shape=arcs.shape,
        attr_data=words.data,
        attr_indices=words.indices,
        attr_indptr=words.indptr,
        attr_shape=words.shape,
        labels=np.repeat(np.arange(4), 60),
    )
    sources, targets = arcs.nonzero()
    once = sources < targets
    lines = [f"n{u},n{v}" for u, v in zip(sources[once], targets[once], strict=True)]
    Path("edges.csv").write_text("\n".join(["source,target", *lines]) + "\n")
    Path("follows.csv").write_text("\n".join(["who,whom", *lines]) + "\n")
    pq.write_table(pa.table({"source": sources[once], "target": targets[once]}), "edges.parquet")
    np.save("x.npy", words.toarray())
    vectors = np.random.default_rng(1).normal(size=(240, 4)).astype(np.float32)
    write_embedding(Path("monday.parquet"), vectors[:160], np.arange(160))
    write_embedding(Path("tuesday.parquet"), vectors[80:] + 1, np.arange(80, 240))
    return tmp_path


def run_command(words, place):
    if words[0] == "mkdir":
        Path(words[-1]).mkdir(parents=True, exist_ok=True)
        return
    assert words[0] == "l2g2g", f"{place}: '{words[0]}' is not run by this test; mark the block"
    extra = [] if {"--epochs", "--model", "--embedding"} & set(words) else SHORT.get(words[1], [])
    with pytest.raises(SystemExit) as end:
        main([*words[1:], *extra])
    assert end.value.code == 0, f"{place}: {' '.join(words)}"


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # of PyG, when it is imported
@pytest.mark.slow
@pytest.mark.parametrize("path", RUN, ids=page_name)
def test_a_page_does_what_it_shows(path, reader, capsys):
    names = {"__name__": "page"}
    for block in BLOCKS[path]:
        if block.file:
            Path(block.file).write_text(block.text)
        if block.not_run:
            continue
        if block.language == "python":
            exec(compile("\n" * block.line + block.text, str(path), "exec"), names)
        elif block.language == "bash":
            for words in blocks.read_commands(block):
                run_command(words, block.place)


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_every_block_is_run_or_says_why_not(path):
    for block in BLOCKS[path]:
        assert block.language in (*blocks.RUNNABLE, *blocks.SHOWN), (
            f"{block.place}: say what the block is: {blocks.RUNNABLE} are run, {blocks.SHOWN} are shown"
        )
        assert block.language in blocks.RUNNABLE or not block.not_run, f"{block.place}: this language is never run"
        if block.language == "python":
            compile(block.text, block.place, "exec")
        elif block.language == "bash":
            for words in blocks.read_commands(block):
                assert blocks.find_mistakes(list(words)) == [], f"{block.place}: {' '.join(words)}"


def test_most_pages_with_code_are_run():
    assert {"README.md", "docs/start.md", "docs/tutorials/own_csv.md"} <= {page_name(path) for path in RUN}


@pytest.mark.parametrize(
    ("command", "mistake"),
    [
        ("l2g2g embed edges.csv -o a.npy --dims 3", "no option --dims"),
        ("l2g2g party exports a", "no command 'exports'"),
        ("l2g2g reproduce everything", "no command 'everything'"),
        ("make coffee", "no target 'coffee' in the Makefile"),
        ("OMP_NUM_THREADS=1 python benchmarks/coffee.py --x", "no script benchmarks/coffee.py"),
        ("torchrun --nproc-per-node 2 -m l2g2g embed g -o a.npy --ranks 2", "no option --ranks"),
        ("l2g2g align a.npy b.npy -o c.npy --no-rotate", ""),
        ("make test", ""),
    ],
)
def test_mistakes_in_commands_are_noticed(command, mistake):
    assert blocks.find_mistakes(command.split()) == ([mistake] if mistake else [])


def test_blocks_are_read_with_their_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        'A\n```csv title="a.csv"\n1,2\n```\n<!-- not run: takes days -->\n```bash\nl2g2g embed \\\n  x  # why\n```\n'
        "```python\n1 / 0\n```\n```\nbare\n```\n"
    )
    table, command, python, bare = blocks.read_blocks(page)
    assert (table.file, table.text, table.not_run) == ("a.csv", "1,2\n", "")
    assert command.not_run == "takes days"
    assert blocks.read_commands(command) == [["l2g2g", "embed", "x"]]
    assert (python.not_run, python.line) == ("", 10)
    assert bare.language == ""


@pytest.mark.parametrize(("tool", "name"), [("command_page", "commands.md"), ("options_page", "options.md")])
def test_a_generated_page_is_that_of_the_code(tool, name):
    page = (ROOT / "docs" / name).read_text()
    assert page == load_tool(tool).render_page(), f"run: python docs/tools/{tool}.py > docs/{name}"


@pytest.fixture(scope="module")
def messages():
    return load_tool("error_messages").read_messages()


def as_patterns(messages):
    """A pattern for every message of the code that says enough by itself; what is filled in may be anything."""
    texts = [each.text for each in messages]
    telling = [text for text in texts if len(text.replace("…", "").replace(" ", "")) >= 15]
    return [re.compile(".+?".join(re.escape(part) for part in text.split("…"))) for text in telling]


@pytest.mark.slow
def test_every_message_on_the_page_of_errors_is_one_of_the_code(messages):
    patterns = as_patterns(messages)
    shown = [each for each in BLOCKS[ROOT / "docs" / "errors.md"] if each.language == "text"]
    lines = [line.removeprefix("l2g2g: ") for each in shown for line in each.text.splitlines()]
    assert len(lines) > 30
    assert [line for line in lines if not any(pattern.fullmatch(line) for pattern in patterns)] == []


def test_messages_are_read_from_all_layers(messages):
    assert len({each.topic for each in messages}) >= 9
    assert len(messages) > 250
    page = load_tool("error_messages").render_messages(messages)
    assert all(f"### {each.topic}" in page for each in messages)
    assert "holds a run already; add --resume" in page


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_beside_the_site_lead_to_files(name):
    """The checker of the site does not see these pages where they lie; `make docs` checks their anchors."""
    links = re.findall(r"\]\(([^)#\s]+)", (ROOT / name).read_text())
    inside = [link for link in links if "://" not in link]
    assert [link for link in inside if not (ROOT / link).exists()] == []


@pytest.mark.slow
def test_pictures_are_drawn_from_a_run():
    tool = load_tool("pictures")
    shown = tool.run(epochs=2)
    for picture in (tool.draw_patches(shown), tool.draw_rotations(shown), tool.draw_assembly(shown)):
        root = ElementTree.fromstring(picture)
        assert len(root.findall("{http://www.w3.org/2000/svg}circle")) > shown.graph.num_nodes
        assert "prefers-color-scheme:dark" in picture
    stages = ElementTree.fromstring(tool.draw_stages())
    assert next(text.text for text in stages.iter("{http://www.w3.org/2000/svg}text")) == "graph"
    said = f"{shown.graph.num_nodes} nodes, {shown.graph.num_edges} edges, patches of {shown.patches.sizes.tolist()}"
    assert said in (ROOT / "docs" / "how_it_works.md").read_text()
