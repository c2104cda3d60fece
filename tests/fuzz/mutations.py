"""Mutations: a valid file becomes a hostile one, by its bytes or by what its format means.

Every mutation is a function of (content, generator, others) and returns bytes. `others` are contents to splice in.
"""

import gzip
import io
import json
import os
import pickle
import re
import struct
import warnings
import zipfile
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# A file of zeros that unpacks 1000 : 1 to more than the harness allows.
BOMB_BYTES = 400_000_000
NUMBERS = (-1, 0, 1, 127, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
TOKENS = (
    *("nan", "inf", "-inf", "NaN", "1e400", "-1", "-0", "0.5", "1e18", "9223372036854775808", "99999999999999999999"),
    *("", " ", "\t", '"', '""', "'", "#", "%", "\0", "\ufeff", "\u2028", "é", "²", "١", "null", "None", "True", "0x10"),
    *("../../x", "=1+1", "<script>", "\x1b[31m", "a\rb", "1_000", "+1", "1.", "00", "x" * 5000, "9" * 5000, "1," * 50),
)


class Payload:
    """What a pickle would run: it makes the canary file."""

    def __reduce__(self):
        return os.mkdir, (os.environ.get("L2G2G_CANARY", "canary"),)


def pick(generator, items):
    return items[int(generator.integers(len(items)))]


# --- bytes ------------------------------------------------------------------------------------------


def flip(content, generator, others):
    data = bytearray(content)
    for _ in range(int(generator.integers(1, 9))):
        if data:
            data[int(generator.integers(len(data)))] = int(pick(generator, (0, 1, 10, 32, 44, 127, 128, 255, -1)) % 256)
    return bytes(data)


def flip_bit(content, generator, others):
    data = bytearray(content)
    if data:
        data[int(generator.integers(len(data)))] ^= 1 << int(generator.integers(8))
    return bytes(data)


def truncate(content, generator, others):
    return content[: int(generator.integers(len(content) + 1))]


def behead(content, generator, others):
    return content[int(generator.integers(len(content) + 1)) :]


def _span(content, generator):
    first, last = sorted(int(place) for place in generator.integers(0, len(content) + 1, 2))
    return first, min(last, first + 4096)


def cut_out(content, generator, others):
    first, last = _span(content, generator)
    return content[:first] + content[last:]


def repeat(content, generator, others):
    first, last = _span(content, generator)
    return content[:last] + content[first:last] * int(generator.integers(1, 5)) + content[last:]


def insert(content, generator, others):
    place = int(generator.integers(len(content) + 1))
    return content[:place] + generator.bytes(int(generator.integers(1, 64))) + content[place:]


def splice(content, generator, others):
    other = pick(generator, others)
    return content[: int(generator.integers(len(content) + 1))] + other[int(generator.integers(len(other) + 1)) :]


def swap(content, generator, others):
    return pick(generator, others)


def integer(content, generator, others):
    kind = pick(generator, ("<q", "<i", ">q", ">i", "<h"))
    width = struct.calcsize(kind)
    value = pick(generator, NUMBERS) % 2 ** (8 * width)
    place = int(generator.integers(max(1, len(content) - width)))
    return content[:place] + value.to_bytes(width, "little" if kind[0] == "<" else "big") + content[place + width :]


def odd_whole(content, generator, others):
    zeros = b"\0" * int(generator.integers(1, 5000))
    whole = (b"", b"\n", b"\0", zeros, content + zeros, content + content, b"PK\x03\x04", b"PAR1PAR1")
    return pick(generator, (*whole, generator.bytes(200), pickle.dumps(Payload())))


BYTES = (flip, flip, flip_bit, truncate, behead, cut_out, repeat, insert, splice, integer, integer, odd_whole)


# --- text -------------------------------------------------------------------------------------------


def token(content, generator, others):
    """One to three cells become what a parser stumbles over."""
    for _ in range(int(generator.integers(1, 4))):
        cells = list(re.finditer(rb"[^,;\s]+", content[:100_000]))
        if cells:
            cell = pick(generator, cells)
            word = pick(generator, TOKENS).encode("utf-8", "surrogatepass")
            content = content[: cell.start()] + word + content[cell.end() :]
    return content


def columns(content, generator, others):
    """A line gets or loses cells, or every line gets one more."""
    lines = content.split(b"\n")
    place = int(generator.integers(len(lines)))
    kind = int(generator.integers(4))
    if kind == 0:
        lines[place] += pick(generator, (b",", b",1", b" 1", b"\t1", b";", b",1" * 50))
    elif kind == 1:
        lines[place] = lines[place].replace(pick(generator, (b",", b" ", b"\t")), b"", 1)
    elif kind == 2:
        lines = [line + b",7" for line in lines]
    else:
        lines[place] = lines[place] * int(generator.integers(2, 4))
    return b"\n".join(lines)


def dialect(content, generator, others):
    """Another delimiter, encoding, line ending, or what stands around the data."""
    text = content.decode("utf-8", "replace")
    ways = (
        lambda: content.replace(b",", pick(generator, (b";", b"\t", b" ", b"|", b"  ", b",,"))),
        lambda: content.replace(b"\n", pick(generator, (b"\r\n", b"\r", b"\n\n", b"", b"\0", b"\v", b"\xc2\x85"))),
        lambda: text.encode(pick(generator, ("utf-16", "utf-32", "utf-7", "utf-8-sig", "utf-16-le"))),
        lambda: b"\xef\xbb\xbf" * 2 + content,
        lambda: b"# " + content,
        lambda: content.replace(b"\n", b"\n#", 2),
        lambda: b'"' + content,
        lambda: content.replace(b"\n", b'\n"', 1),
        lambda: re.sub(rb"([^,\n]+)", rb'"\1"', content),
        lambda: content + b"\xff\xfe\xc3\x28",
        lambda: b"a,a\n" + content,
        lambda: b"source,target,weight\n" + content,
        lambda: b"\n" * 3000 + content + b" \n" * 3000,
    )
    return pick(generator, ways)()


def huge_line(content, generator, others):
    """One line that is very long, very wide, or full of quotes."""
    ways = (
        b"," * 50_000,
        b"1," * 50_000 + b"1",
        b"x" * 3_000_000,
        b'"' * 200_000,
        b"1 " * 50_000,
        b"\t" * 50_000,
        b"1" * 200_000 + b",2",
    )
    line = pick(generator, ways)
    return line + b"\n" + content if generator.random() < 0.5 else content + line + b"\n"


def promise(content, generator, others):
    """Another first line of word2vec text: how many rows and columns there will be."""
    first = f"{pick(generator, (*NUMBERS, 10**9, 10**30))} {pick(generator, (*NUMBERS, 10**9, 10**30))}\n".encode()
    return first + content.split(b"\n", 1)[-1]


TEXT = (token, token, token, columns, columns, dialect, dialect, promise, huge_line, *BYTES)


def packed(mutations):
    """Mutate what is inside a gzip file, or the file itself."""

    def inside(content, generator, others):
        try:
            plain = gzip.decompress(content)
        except (OSError, EOFError):
            return content
        return gzip.compress(pick(generator, mutations)(plain, generator, others), 1)

    return inside


_bombs = {}


def make_bombs():
    """Files that unpack 1000 : 1 and more. Costly, so made once, in a process whose memory does not count."""
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1) as file:
        for _ in range(BOMB_BYTES // 10_000_000):
            file.write(b"0,1\n" * 2_500_000)
    bombs = {"text": stream.getvalue()}
    shape = b"(%d,), }" % (BOMB_BYTES // 8)
    head = npy(np.zeros(1, np.int64))[:128].replace(b"(1,), }".ljust(len(shape)), shape)
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    pieces, checksum, zeros = [packer.compress(head)], zlib.crc32(head), bytes(10_000_000)
    for _ in range(BOMB_BYTES // len(zeros)):
        pieces.append(packer.compress(zeros))
        checksum = zlib.crc32(zeros, checksum)
    bombs |= {"zeros": b"".join([*pieces, packer.flush()]), "checksum": checksum}
    many, numbers = pa.array(["x" * 400_000] * 1000, pa.large_string()), pa.array(np.zeros(BOMB_BYTES // 8, np.int64))
    lists = pa.LargeListArray.from_arrays([0, BOMB_BYTES // 8], pa.array(np.zeros(BOMB_BYTES // 8)))
    for name, values in (("rows", numbers), ("names", many), ("lists", lists)):
        stream = io.BytesIO()
        pq.write_table(pa.table({"a": pa.array(range(len(values))), "b": values}), stream, compression="zstd")
        bombs[name] = stream.getvalue()
    return bombs


def use_bombs(bombs):
    _bombs.update(bombs)


def gzip_bomb(content, generator, others):
    return _bombs["text"]


# --- arrays -----------------------------------------------------------------------------------------

TYPES = "?bBhHiIlLqQefdgFDSUVmMO"


def odd_array(array, generator):
    """The same array, gone wrong in its values, type or shape."""
    kind = int(generator.integers(12))
    with np.errstate(all="ignore"):
        if kind <= 3 and array.size:
            array = array.copy() if array.dtype.kind in "iufb" else array.astype("U20")
            place = tuple(int(generator.integers(size)) for size in array.shape)
            value = pick(generator, (*NUMBERS, np.nan, np.inf, -np.inf, 1e300, -1e-300))
            if array.dtype.kind in "iu":
                limits = np.iinfo(array.dtype)
                value = 0 if value != value else int(min(max(value, limits.min), limits.max))
            array[place] = value
            return array
        if kind == 4:
            try:
                return array.astype(np.dtype(pick(generator, TYPES)))
            except (ValueError, TypeError, OverflowError):
                return np.zeros(array.shape, pick(generator, "FDm"))
        if kind == 5:
            return array.astype(array.dtype.newbyteorder()) if array.dtype.kind in "iuf" else array.astype("S9")
        if kind == 6:
            flat = array.ravel()
            shapes = (flat, flat[None], flat[:, None], flat[:, None, None], flat[:0], array[None], flat.reshape(-1, 1))
            return pick(generator, shapes)
        if kind == 7:
            return np.array(pick(generator, (0, -1, 2**40, np.nan, "csr", b"csr", True, 1j, np.datetime64("NaT"))))
        if kind == 8:
            odd = np.full(array.shape, None, dtype=object)
            if odd.size:
                odd[(0,) * odd.ndim] = Payload()
            return odd if odd.ndim else np.array([Payload()], dtype=object)
        if kind == 9:
            return np.resize(array, pick(generator, (0, 1, 2, array.size + 1, 2 * array.size, (3, 0), (0, 3))))
        if kind == 10:
            return np.zeros(array.shape, np.dtype([("a", "i4"), ("b", "f8")]))
        return np.asfortranarray(array[::-1]) if array.ndim else array


def npy(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def odd_header(content, generator):
    """Other words in the header of an .npy: sizes that are not there, types that do not exist, deep nesting."""
    match = re.search(rb"\{.*?\}[ ]*\n", content[:2000], re.DOTALL)
    if match is None:
        return content
    shape = pick(
        generator,
        (
            *("(99999999999, 99999)", "(1152921504606846976,)", "(-1, 4)", "(2.5,)", "(1e3,)", "()", "(0,)", "[3, 4]"),
            *("(1000000000,)", "(True, 3)", "None", "((1,),)", "(" * 300 + ")" * 300, "(2**70,)", "'x'"),
            "(4611686018427387904, 4611686018427387904)",
        ),
    )
    kind = pick(
        generator,
        (
            *("'<f8'", "'<f8'", "'|O'", "'O'", "'<M8[ns]'", "'|V0'", "'<U0'", "'|S0'", "'<U1000000000'", "'q,q'"),
            *(
                "[('a', 'O')]",
                "[]",
                "'<g8'",
                "7",
                "None",
                "'<f16'",
                "'|b1'",
                "'>i2'",
                "[('a', '<f8', (9999999, 9999))]",
            ),
        ),
    )
    order = pick(generator, ("False", "True", "1", "None", "'x'"))
    texts = (
        f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}, }}",
        f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}",
        f"{{'descr': {kind}, 'fortran_order': False, 'shape': (3, 4), }}",
        "{" * 500,
        "{'descr': '<f8'}",
        "__import__('os').mkdir('canary')",
        "{'shape': (1L,), 'descr': '<f8', 'fortran_order': False}",
        "\0" * 100,
    )
    text = pick(generator, texts).encode() + b"\n"
    version = pick(generator, (1, 1, 1, 2, 3, 4, 255))
    length = struct.pack("<H", len(text)) if version == 1 else struct.pack("<I", len(text))
    if generator.random() < 0.1:
        length = struct.pack("<H", 65535) if version == 1 else struct.pack("<I", pick(generator, (2**31, 2**32 - 1)))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + content[match.end() :]


def header(content, generator, others):
    return odd_header(content, generator)


def array(content, generator, others):
    return npy(odd_array(np.load(io.BytesIO(content), allow_pickle=False), generator), allow_pickle=True)


NPY = (array, array, array, header, header, *BYTES)


def _write_zip(members, compression=zipfile.ZIP_DEFLATED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression, compresslevel=1) as archive:
        for name, data in members:
            with warnings.catch_warnings(action="ignore"):  # one name twice is what we want
                archive.writestr(name, data)
    return stream.getvalue()


def member(content, generator, others):
    """One array of an archive goes wrong, or the archive around it does."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    place = int(generator.integers(len(members)))
    name, data = members[place]
    kind = int(generator.integers(16))
    if kind <= 7:
        for _ in range(int(generator.integers(1, 3))):
            place = int(generator.integers(len(members)))
            name, data = members[place]
            data = array(data, generator, others) if data[:6] == b"\x93NUMPY" and b"|O" not in data[:128] else b"x"
            members[place] = (name, data)
    elif kind == 8:
        members[place] = (name, odd_header(data, generator))
    elif kind == 9:
        del members[place]
    elif kind == 10:
        odd = ("../../x.npy", "/x.npy", "a\nb.npy", "\x1b[31m.npy", "", "x" * 60_000, name.removesuffix(".npy"), "a/b")
        members[place] = (pick(generator, odd), data)
    elif kind == 11:
        members.append((pick(generator, members)[0], data))  # one name twice
    elif kind == 12:
        members[place] = (name, pick(generator, BYTES)(data, generator, others))
    elif kind == 13:
        link = zipfile.ZipInfo(name)
        link.external_attr = 0o120777 << 16
        members[place] = (link, b"/etc/passwd")
    elif kind == 14:
        members += [(f"extra{number}.npy", npy(np.zeros(3))) for number in range(int(generator.integers(1, 300)))]
    else:
        first, second = pick(generator, members), pick(generator, members)
        members = [(n, {first[0]: second[1], second[0]: first[1]}.get(n, d)) for n, d in members]
    return _write_zip(members, pick(generator, (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA)))


def zip_bomb(content, generator, others):
    """A member that unpacks to more than there is, honest about its size or not."""
    data, checksum = _bombs["zeros"], _bombs["checksum"]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        name = pick(generator, archive.namelist()).encode()
    size = pick(generator, (BOMB_BYTES + 128, 1000))  # it may say that it is small
    common = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 33, checksum, len(data), size, len(name), 0)
    local = b"PK\x03\x04" + common + name
    central = b"PK\x01\x02" + struct.pack("<H", 20) + common + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    end = struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local) + len(data), 0)
    return local + data + central + b"PK\x05\x06" + end


NPZ = (*(member,) * 8, *BYTES)


# --- Parquet ----------------------------------------------------------------------------------------


def _odd_column(column, generator):
    size = len(column)
    numbers = np.arange(size)
    ways = (
        lambda: pa.array([None] * size),
        lambda: pa.array([None, *numbers[1:].tolist()][:size]),
        lambda: pa.array(numbers * 0.5),
        lambda: pa.array(np.full(size, pick(generator, (np.nan, np.inf, 1e300, -1.0, 1e-300)))),
        lambda: pa.array(numbers.astype(np.uint64) + np.uint64(2**63)),
        lambda: pa.array(numbers - 3),
        lambda: pa.array([str(number) for number in numbers]),
        lambda: pa.array([pick(generator, TOKENS) for _ in numbers]),
        lambda: pa.array([b"\xff\xfe"] * size, pa.binary()),
        lambda: pa.array([[1.0] * int(generator.integers(4)) for _ in numbers]),
        lambda: pa.array([[1.0, None]] * size),
        lambda: pa.array([[[1.0]]] * size),
        lambda: pa.array([["a"]] * size),
        lambda: pa.array([{"a": 1}] * size),
        lambda: pa.array(numbers % 2 == 0),
        lambda: pa.array(numbers, pa.timestamp("ns")),
        lambda: pa.array(numbers.astype(np.int32), pa.date32()),
        lambda: pa.array(numbers, pa.time64("us")),
        lambda: pa.array(numbers, pa.duration("s")),
        lambda: pa.array([str(number) for number in numbers]).dictionary_encode(),
        lambda: pa.array(numbers.astype(np.float16)),
        lambda: pa.array([f"{number}.5" for number in numbers]).cast(pa.decimal128(20, 2)),
        lambda: pa.array(["a"] * size, pa.large_string()),
        lambda: pa.array(["a"] * size, pa.string_view()),
        lambda: pa.array(numbers.astype(np.int8)),
        lambda: column.cast(pa.string()) if not pa.types.is_nested(column.type) else column,
        lambda: pa.array([b"12345678"] * size, pa.binary(8)),
        lambda: pa.array(np.ones((size, 3)).tolist(), pa.list_(pa.float64(), 3)),
        lambda: pa.array([(("k", 1),)] * size, pa.map_(pa.string(), pa.int64())),
    )
    return pick(generator, ways)()


def parquet_column(content, generator, others):
    table = pq.read_table(io.BytesIO(content))
    columns, names = list(table.columns), list(table.column_names)
    place, kind = int(generator.integers(len(columns))), int(generator.integers(10))
    if kind <= 5:
        columns[place] = _odd_column(columns[place], generator)
    elif kind == 6:
        del columns[place], names[place]
    elif kind == 7:
        columns.append(columns[place])
        names.append(pick(generator, [*names, "a\nb", "\x1b[31m", ""]))
    elif kind == 8:
        columns = [column.slice(0, int(pick(generator, (0, 1, 2)))) for column in columns]
    else:
        names = [pick(generator, ["", "id", "a", "a\nb", "<b>"]) for _ in names]
    if not columns:
        return content
    stream = io.BytesIO()
    codec = pick(generator, ("snappy", "zstd", "gzip", "none"))
    try:
        pq.write_table(pa.table(columns, names=names), stream, compression=codec)
    except (pa.ArrowException, ValueError):
        return content[:-20]
    return stream.getvalue()


def parquet_bomb(content, generator, others):
    """Few bytes that stand for very many rows or very long names."""
    return _bombs[pick(generator, ("rows", "names", "lists"))]


PARQUET = (*(parquet_column,) * 8, *BYTES)


# --- JSON and safetensors ---------------------------------------------------------------------------


def odd_value(generator):
    deep = []
    for _ in range(200):
        deep = [deep]
    values = (None, True, -1, 0, 1.5, 2**70, 1e308, float("nan"), float("inf"), "", "x", "../../x", [], {}, [1, "a"])
    return pick(generator, (*values, {"a": None}, deep, "\x1b[31m\n", "<script>alert(1)</script>", 10**300, -(2**63)))


def odd_tree(tree, generator):
    """One value anywhere in a tree of JSON becomes another, goes away, or moves."""
    places = []

    def walk(node, trail):
        places.append(trail)
        items = node.items() if isinstance(node, dict) else enumerate(node[:20]) if isinstance(node, list) else ()
        for key, child in items:
            walk(child, (*trail, key))

    walk(tree, ())
    trail = pick(generator, places)
    if not trail:
        return odd_value(generator)
    tree = json.loads(json.dumps(tree))
    node = tree
    for key in trail[:-1]:
        node = node[key]
    kind = int(generator.integers(5))
    if kind <= 2:
        node[trail[-1]] = odd_value(generator)
    elif kind == 3:
        del node[trail[-1]]
    elif isinstance(node, dict):
        node[pick(generator, ("", "x", "__class__", "\n", trail[-1]))] = odd_value(generator)
    else:
        node.append(odd_value(generator))
    return tree


def tree(content, generator, others):
    """JSON, or one line of JSON lines."""
    lines = content.split(b"\n")
    full = [number for number, line in enumerate(lines) if line.strip()]
    if not full:
        return b"{}"
    whole = len(full) == 1 or content[:2] in (b"{\n", b"[\n")
    try:
        if whole:
            return json.dumps(odd_tree(json.loads(content), generator)).encode()
        place = pick(generator, full)
        lines[place] = json.dumps(odd_tree(json.loads(lines[place]), generator)).encode()
    except (ValueError, RecursionError):
        return content[:-3]
    return b"\n".join(lines)


def deep(content, generator, others):
    """Nesting beyond what any parser recurses into, numbers beyond what it converts, keys twice."""
    ways = (b"[" * 200_000, b'{"a":' * 100_000, b"9" * 10_000, b"[" * 5000 + b"]" * 5000, b'{"a":1,"a":2}', b"1e999999")
    odd = pick(generator, ways)
    return pick(generator, (odd, content.replace(b": ", b": " + odd, 1), content + b"\n" + odd + b"\n"))


JSON = (*(tree,) * 8, deep, token, *BYTES)


def tensors(content, generator, others):
    """Another header of a safetensors file: places, types and shapes that are not so."""
    if len(content) < 8:
        return content
    (length,) = struct.unpack("<Q", content[:8])
    try:
        head = json.loads(content[8 : 8 + length])
    except ValueError:
        return content[:-1]
    if generator.random() < 0.2:
        return struct.pack("<Q", pick(generator, NUMBERS) % 2**64) + content[8:]
    text = json.dumps(odd_tree(head, generator)).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def tensor_values(content, generator, others):
    """Tensors that are in order as a file, with other values, types or shapes than the reader expects."""
    import torch
    from safetensors.torch import load, save

    held = load(content)
    name = pick(generator, sorted(held))
    value = held[name]
    kind = int(generator.integers(6))
    if kind == 0:
        del held[name]
    elif kind == 1:
        held[name] = value.flatten()[:-1].clone()
    elif kind == 2:
        held[name] = torch.full_like(value, float("nan")) if value.is_floating_point() else torch.full_like(value, -1)
    elif kind == 3:
        held[name] = value.to(pick(generator, (torch.float16, torch.int8, torch.bool, torch.float64, torch.bfloat16)))
    elif kind == 4:
        held[name] = value[None].clone()
    else:
        held[pick(generator, ("x", "model.x", "history.losses", name + ".0"))] = torch.zeros(3)
    return save(held)


SAFETENSORS = (*(tensors,) * 3, *(tensor_values,) * 4, *BYTES)
