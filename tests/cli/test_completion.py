import os
import subprocess
import sys

import pytest

from l2g2g.cli.help import complete_words
from l2g2g.methods import METHODS

CALL = "import sys; sys.argv = ['l2g2g']; from l2g2g.__main__ import main; main()"


def offered(words, folder):
    """What bash gets for a line of words, the last of them unfinished."""
    asked = {"_L2G2G_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", CALL],
        env={**os.environ, **asked},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_words_that_begin_alike():
    assert complete_words(METHODS)("vg") == ["vgae"]
    assert complete_words(METHODS)("") == list(METHODS)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["l2g2g", "embed", "x", "--method", "l2"], ["l2g2g"]),
        (["l2g2g", "embed", "x", "--checkp"], ["--checkpoint-every"]),
        *(
            pytest.param(["l2g2g", *words], expected, marks=pytest.mark.slow)
            for words, expected in (
                (["neigh"], ["neighbours"]),
                (["evaluate", "x", "--preset", "pa"], ["paper"]),
                (["plan", "x", "--decoder", "pro"], ["product"]),
                (["embed", "x", "--mask-by", "n"], ["nodes"]),
                (["evaluate", "x", "--protocol", "h"], ["heldout"]),
                (["prepare", "x", "--partition", "s"], ["streaming"]),
            )
        ),
    ],
)
def test_through_the_shell(words, expected, tmp_path):
    assert offered(words, tmp_path) == expected


@pytest.mark.slow
def test_data_sets_and_files(tmp_path):
    (tmp_path / "sbm-mine.csv").write_text("a,b\n")
    (tmp_path / "sbm-notes.pdf").write_text("")
    (tmp_path / "sbm-folder").mkdir()
    found = offered(["l2g2g", "embed", "sbm-"], tmp_path)
    assert {"sbm-small", "sbm-large", "sbm-mine.csv", "sbm-folder/"} <= set(found)
    assert "sbm-notes.pdf" not in found
