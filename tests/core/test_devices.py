"""Other devices, as far as a machine without a GPU can tell: what a training by torch dispatches, and mixed devices.

A training with `--backend torch` is recorded operator by operator. Each must have a kernel for CUDA in the list of
native functions that torch packages for its code generator, of the layout that it was called with: strided, or
compressed sparse rows. Operators that are composed of others need none. That a kernel is there is all that this shows.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from l2g2g import align
from l2g2g.config import make_config
from l2g2g.errors import InputError
from l2g2g.graphs.splits import split_links
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.patches.overlap import whole_graph
from l2g2g.runs.training import run_split
from l2g2g.training.batches import BatchOptions, PatchBatches
from l2g2g.training.loop import LoopSettings, Training
from l2g2g.training.patch_source import InducedPatches

pytestmark = pytest.mark.usefixtures("usual_backend")

torchgen = pytest.importorskip("torchgen")


class Recorder(TorchDispatchMode):
    """(name of the operator, whether a tensor that it got is sparse) of all that is dispatched."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = [each for each in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        name = func._schema.name + (f".{func._schema.overload_name}" if func._schema.overload_name else "")
        self.found.add((name.removeprefix("aten::"), any(each.layout == torch.sparse_csr for each in tensors)))
        return func(*args, **(kwargs or {}))


@pytest.fixture(scope="module")
def kernels():
    """Dispatch keys of every native function; those of composite ones among them."""
    import yaml

    path = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    entries = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    by_name = {entry["func"].split("(")[0]: entry for entry in entries}

    def keys(name):
        entry = by_name[name]
        if "structured_delegate" in entry:
            entry = by_name[entry["structured_delegate"]] | {"own": entry.get("dispatch", {})}
        given = {**entry.get("dispatch", {}), **entry.get("own", {})}
        if "ufunc_inner_loop" in entry:  # of which both kernels are generated
            given |= {"CPU, CUDA": None}
        # Without a list an operator is composed of others, which are dispatched and looked up themselves.
        return {key.strip() for keys in given for key in keys.split(",")} or {"CompositeImplicitAutograd"}

    return keys


COMPOSED = {"CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"}


def runs_on_cuda(kernels, name, is_sparse):
    wanted = {"SparseCsrCUDA", "SparseCsr"} if is_sparse else {"CUDA"}
    return bool(kernels(name) & (wanted | COMPOSED))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "preset", "options"),
    [
        ("gae", "default", {}),
        ("gae+l2g", "paper", {"patches": 3, "dim": 4}),
        ("l2g2g", "paper", {"patches": 3, "dim": 4, "translate": True}),
        ("l2g2g", "default", {"patches": 3}),
        ("l2g2g", "accurate", {"patches": 3, "dim": 16}),
        ("vl2g2g", "default", {"patches": 3, "encoder": "sage"}),
    ],
)
def test_every_operator_of_a_training_by_torch_has_a_kernel_for_cuda(planted, kernels, method, preset, options):
    config = make_config(method, preset, epochs=2, backend="torch", **options)
    with Recorder() as recorder:
        run_split(split_links(planted, seed=0), config)
    names = {name for name, _ in recorder.found}
    assert {"mm", "_foreach_mul_.Scalar"} & names  # the recorder was there
    assert any(sparse for _, sparse in recorder.found)
    assert not [each for each in sorted(recorder.found) if not runs_on_cuda(kernels, *each)]
    assert not runs_on_cuda(kernels, "_sparse_mm_reduce_impl", True)  # there are some that have none


def test_a_model_and_patches_on_two_devices_are_refused(planted):
    patch_set = whole_graph(planted.num_nodes)
    source = InducedPatches(patch_set, planted.adjacency, planted.features)
    batches = PatchBatches(source, [np.array([0])], planted.adjacency, BatchOptions())
    model = Autoencoder(planted.num_features, 4).to("meta")
    with pytest.raises(InputError, match="the model is on meta and its patches on cpu; use one device for both"):
        Training(model, batches, patch_set, LoopSettings())


def test_patches_on_two_devices_are_not_aligned():
    nodes, rows = np.arange(20), torch.randn(20, 3)
    with pytest.raises(InputError, match="on cpu and meta; move them to one device"):
        align([(nodes, rows), (nodes, rows.to("meta"))])
