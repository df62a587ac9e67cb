"""Products of NumPy arrays: matmul and grouped_mm of a Device."""

from __future__ import annotations

import ctypes
import math
import weakref

import numpy as np

from . import _core
from ._abi import InvalidError, single
from ._objects import end_of

TYPES = {np.dtype(np.float32): "f32", np.dtype(np.float16): "f16"}
ACTIVATIONS = (None, "relu", "gelu", "silu")
ALIGN = 16  # bytes: where packed matrices begin, the widest load of kernels
KEPT = 16  # programs of grouped_mm that a device keeps
MOST = 8 << 20  # elements of a buffer that it keeps
PROBLEM = np.dtype(_core.Problem)


def matmul(device, a, b, out, bias, activation, alpha, compute, timeout):
    a, b = _matrices("a", a), _matrices("b", b)
    if len(a) != len(b):
        raise InvalidError(f"{len(a)} matrices in a, {len(b)} in b")
    if not a:
        return []
    of = _check("a", a)
    if _check("b", b) != of:
        raise TypeError(f"a is of {a[0].dtype}, b of {b[0].dtype}")
    for i, (x, y) in enumerate(zip(a, b)):
        if x.shape[1] != y.shape[0]:
            raise InvalidError(f"problem {i}: a is {x.shape}, b is {y.shape}")
    shapes = [(x.shape[0], y.shape[1]) for x, y in zip(a, b)]
    biases = _biases(bias, shapes, a[0].dtype)
    _check_activation(activation)
    if out is not None:
        out = _matrices("out", out)
        _check_out(out, shapes, a[0].dtype)

    problems = np.zeros(len(a), PROBLEM)
    problems["struct_size"], problems["alpha"] = PROBLEM.itemsize, single("alpha", alpha)
    problems["m"], problems["n"] = zip(*shapes)
    problems["k"] = [x.shape[1] for x in a]
    trans_a, problems["offset_a"], problems["lda"], on_a = _place(a)
    trans_b, problems["offset_b"], problems["ldb"], on_b = _place(b)
    problems["flags"] = _core.TRANS_A * trans_a + _core.TRANS_B * trans_b
    placed = _place_results(out, shapes, a[0].dtype, (on_a, on_b))
    results, problems["offset_c"], problems["ldc"], on_c = placed

    options = {"type_a": of, "type_c": of}
    if compute:
        options["compute"] = compute
    given = {"a": on_a, "b": on_b, "c": on_c}
    if biases is not None:
        columns = np.cumsum(problems["n"])
        problems["bias"] = columns - problems["n"]
        given["bias"] = biases.ctypes.data, biases.size, biases
    options |= _epilogue(biases is not None, activation)
    batch = problems.ctypes.data_as(ctypes.POINTER(_core.Problem)), len(problems)
    device._gemm(batch, options, given, timeout)
    if out is None:
        return results
    if results is not out:
        for to, result in zip(out, results):
            np.copyto(to, result)
    return out


def _matrices(name, given):
    if isinstance(given, np.ndarray) and given.ndim != 3:
        raise InvalidError(f"{name} is one array of {given.ndim} dimensions: "
                           "it must be a list of matrices, or a stack of 3")
    return list(given)


def _check(name, arrays):
    """The type that all matrices have."""
    dtype = None
    for i, x in enumerate(arrays):
        if not isinstance(x, np.ndarray):
            raise TypeError(f"problem {i}: {name} is a {type(x).__name__}, not a NumPy array")
        if x.ndim != 2:
            raise InvalidError(f"problem {i}: {name} has {x.ndim} dimensions, not 2")
        if x.dtype is dtype:
            continue
        if x.dtype not in TYPES:
            raise TypeError(f"problem {i}: {name} is of {x.dtype}, not float32 or float16")
        if x.dtype != arrays[0].dtype:
            raise TypeError(f"problem {i}: {name} is of {x.dtype}, that of problem 0 of {arrays[0].dtype}")
        dtype = x.dtype
    return TYPES[dtype]


def _epilogue(bias, activation):
    """The options for bias and activation."""
    parts = {name: value for name, value in (("bias", bias), ("activation", activation)) if value}
    return {"epilogue": parts} if parts else {}


def _check_activation(activation):
    if activation not in ACTIVATIONS:
        raise InvalidError(f"activation is {activation!r}, not one of {ACTIVATIONS}")


def _biases(bias, shapes, dtype):
    """The biases of all problems, one after the other; None for none."""
    if bias is None:
        return None
    bias = list(bias)
    if len(bias) != len(shapes):
        raise InvalidError(f"{len(bias)} arrays in bias, {len(shapes)} products")
    for i, (x, (_, n)) in enumerate(zip(bias, shapes)):
        if not isinstance(x, np.ndarray) or x.dtype != dtype:
            raise TypeError(f"problem {i}: bias is not an array of {dtype}")
        if x.shape != (n,):
            raise InvalidError(f"problem {i}: bias is {x.shape}, not {(n,)}")
    return np.concatenate(bias)


def _check_out(out, shapes, dtype):
    if len(out) != len(shapes):
        raise InvalidError(f"{len(out)} matrices in out, {len(shapes)} products")
    for i, (x, shape) in enumerate(zip(out, shapes)):
        if not isinstance(x, np.ndarray) or x.dtype != dtype:
            raise TypeError(f"problem {i}: out is not an array of {dtype}")
        if x.shape != shape:
            raise InvalidError(f"problem {i}: out is {x.shape}, the product is {shape}")
        if not x.flags.writeable:
            raise InvalidError(f"problem {i}: out is read-only")
        if not _nested(x):
            raise InvalidError(f"problem {i}: out has strides {x.strides}: "
                               "its elements overlap, or its rows are not apart")
    before = []  # arrays that end after where the one at hand begins
    spans = {i: _span(x) for i, x in enumerate(out) if x.size}
    for i in sorted(spans, key=spans.__getitem__):
        before = [j for j in before if spans[j][1] > spans[i][0]]
        for j in before:
            if np.shares_memory(out[i], out[j]):
                raise InvalidError(f"problem {max(i, j)}: out overlaps out of problem {min(i, j)}")
        before.append(i)


def _nested(x):
    """Whether the rows of a matrix, or its columns, follow each other, so that no elements overlap."""
    reach = x.itemsize
    steps = [(abs(step), count) for step, count in zip(x.strides, x.shape) if x.size and count > 1]
    for step, count in sorted(steps):
        if step < reach:
            return False
        reach += step * (count - 1)
    return True


def _place_results(out, shapes, dtype, reads):
    """Matrices for results, their offsets and leading dimensions, and address, length and keeper of the
    memory that has all. That is out, if kernels can write to it and it is apart from what they read; else new
    memory."""
    if out is not None:
        trans, offsets, lds, on_c = _as_they_lie(out) or ([True], None, None, None)
        lies_so = not any(trans) and not _interleave(out, lds)
        if lies_so and all(_apart(on_c, on, dtype.itemsize) for on in reads):
            return out, offsets, lds, on_c
    step = ALIGN // dtype.itemsize
    ends = np.cumsum([-(-m * n // step) * step for m, n in shapes])
    offsets = [0, *ends[:-1].tolist()]
    c = np.empty(ends[-1], dtype)
    results = [c[at:at + m * n].reshape(m, n) for at, (m, n) in zip(offsets, shapes)]
    return results, offsets, [n for _, n in shapes], (c.ctypes.data, c.size, c)


def _interleave(matrices, lds):
    """Whether a matrix begins among the rows of another, and their leading dimensions differ. A batch refuses
    that."""
    end, before = 0, 0
    rows = [(_span(x), ld) for x, ld in zip(matrices, lds) if x.size and len(x) > 1 and x.shape[1] < ld]
    for (at, to), ld in sorted(rows):
        if at < end and ld != before:
            return True
        end, before = max(end, to), ld
    return False


def _apart(one, other, size):
    """Whether two pieces of memory of elements of a size share none."""
    (at, count, _), (begin, length, _) = one, other
    return at + count * size <= begin or begin + length * size <= at


def _place(matrices):
    """Where the matrices of an operand are: whether each is transposed, its offset and leading dimension, and
    address, length and keeper of the memory that has all. If all are views of one array, and at least half of
    what they span, they are used where they are. Otherwise they are copied one after the other: the library
    takes one array, the memory between arrays belongs to others, and a GPU would be sent all of it."""
    return _as_they_lie(matrices) or _packed(matrices)


def _owner(x):
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


def _as_they_lie(matrices):
    """_place() of matrices that are used where they are, or None."""
    first = _owner(matrices[0])
    if not all(_owner(x) is first for x in matrices[1:]):
        return None
    size = matrices[0].itemsize
    layouts = [_layout(x) for x in matrices]
    if None in layouts:
        return None
    trans, lds = zip(*layouts)
    spans = [_span(x) for x in matrices]
    full = [span for span, x in zip(spans, matrices) if x.size]
    low, high = min(full, default=(0, 0))[0], max((high for _, high in full), default=0)
    if any((at - low) % size for at, _ in full) or low % size:
        return None
    if high - low > 2 * sum(x.nbytes for x in matrices):
        return None
    offsets = [(at - low) // size if x.size else 0 for (at, _), x in zip(spans, matrices)]
    return np.array(trans), offsets, lds, (low, (high - low) // size, matrices)


def _layout(x):
    """Whether a matrix is stored transposed, and its leading dimension. None if neither the elements of a row
    nor those of a column follow each other."""
    if x.size == 0:
        return False, x.shape[1]
    ways = (False, x.shape, x.strides), (True, x.shape[::-1], x.strides[::-1])
    for trans, (rows, cols), (down, right) in ways:
        if rows == 1:
            down = cols * x.itemsize
        dense = cols == 1 or right == x.itemsize
        if dense and down % x.itemsize == 0 and cols * x.itemsize <= down < x.itemsize << 31:
            return trans, down // x.itemsize
    return None


def _span(x):
    """The addresses of an array, from its first byte to after the last."""
    reach = [(n - 1) * step for n, step in zip(x.shape, x.strides)]
    at = _begin(x)
    return at + sum(min(r, 0) for r in reach), at + sum(max(r, 0) for r in reach) + x.itemsize


def _packed(matrices):
    """_place() of copies in one array, each as it is stored."""
    step = ALIGN // matrices[0].itemsize
    trans = np.array([abs(x.strides[0]) < abs(x.strides[1]) for x in matrices])
    sizes = [x.size for x in matrices]
    ends = np.cumsum([-(-size // step) * step for size in sizes]).tolist()
    starts, lds = [0, *ends[:-1]], [x.shape[0 if turned else 1] for x, turned in zip(matrices, trans)]
    memory = np.empty(ends[-1], matrices[0].dtype)
    if sum(sizes) == memory.size and all(x.flags.forc for x in matrices):
        # For many small ones in a fifth of the time.
        np.concatenate([x.ravel("K") for x in matrices], out=memory)
    else:
        for x, turned, at, size in zip(matrices, trans, starts, sizes):
            stored = x.T if turned else x
            memory[at:at + size].reshape(stored.shape)[...] = stored
    return trans, starts, lds, (memory.ctypes.data, memory.size, memory)


def grouped_mm(device, x, w, ends, bias, activation, compute, timeout):
    of = _check_grouped(x, w, bias, activation)
    rows, (groups, k, n) = len(x), w.shape
    ends = _check_ends(ends, groups, rows)
    end_of(timeout)
    if rows == 0 or n == 0 or groups == 0:
        return np.zeros((rows, n), x.dtype)
    trans_b = not w.flags.c_contiguous and w.transpose(0, 2, 1).flags.c_contiguous
    given = {"a": x, "b": w.transpose(0, 2, 1) if trans_b else w, "sizes": ends}
    if bias is not None:
        given["bias"] = bias
    bound = 1 << (rows - 1).bit_length()  # numbers of rows that are near share a program
    result = _empty((rows, n), x.dtype)
    run = _run_on_host if device.backend == "cpu" else _run_in_buffers
    with device._lock:
        program = _program(device, of, groups, bound, n, k, trans_b, bias is not None, activation, compute)
        run(device, program, given, result, ends[-1], bound, of, timeout)
    result[ends[-1]:] = 0
    return result


def _run_on_host(device, program, given, result, last, bound, of, timeout):
    """Runs a program of grouped_mm on arrays where they are. Ends were checked: nothing after the last is
    touched."""
    given = {name: _aligned(data) for name, data in given.items()} | {"c": result}
    device._hold(given)
    program.run_at(0, **{name: _begin(data) for name, data in given.items()})
    program.status(timeout)
    device._release()


def _run_in_buffers(device, program, given, result, last, bound, of, timeout):
    """Runs a program of grouped_mm on copies in buffers. These are as long as its bounds ask for."""
    counts = {name: data.size for name, data in given.items()}
    counts |= {"a": bound * given["a"].shape[1], "c": bound * result.shape[1]}
    types = {name: "f32" if name == "sizes" else of for name in counts}
    buffers = {name: _buffer(device, name, count, types[name]) for name, count in counts.items()}
    for name, data in given.items():
        buffers[name].write(_aligned(data).reshape(-1), timeout=timeout)
    program.run(**buffers)
    program.status(timeout)
    buffers["c"].read(result[:last].reshape(-1), timeout=timeout)
    _trim(device)


def _begin(x):
    return x.__array_interface__["data"][0]


def _aligned(x):
    """An array, or a copy of it, that is contiguous and begins where kernels take it."""
    if x.flags.c_contiguous and _begin(x) % ALIGN == 0:
        return x
    copy = _empty(x.shape, x.dtype)
    copy[...] = x
    return copy


def _empty(shape, dtype):
    """A new array that begins where kernels take it."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + ALIGN, np.uint8)
    at = -_begin(memory) % ALIGN
    return memory[at:at + size].view(dtype).reshape(shape)


def _check_grouped(x, w, bias, activation):
    for name, data, dims in ("x", x, 2), ("w", w, 3), ("bias", bias, 2):
        if data is None and name == "bias":
            continue
        if not isinstance(data, np.ndarray) or data.dtype not in TYPES:
            raise TypeError(f"{name} is not a NumPy array of float32 or float16")
        if data.dtype != x.dtype:
            raise TypeError(f"{name} is of {data.dtype}, x of {x.dtype}")
        if data.ndim != dims:
            raise InvalidError(f"{name} has {data.ndim} dimensions, not {dims}")
    if x.shape[1] != w.shape[1]:
        raise InvalidError(f"x is {x.shape}, w is {w.shape}: the columns of x are not the rows of "
                           f"each w")
    if bias is not None and bias.shape != (len(w), w.shape[2]):
        raise InvalidError(f"bias is {bias.shape}, not {(len(w), w.shape[2])}")
    _check_activation(activation)
    return TYPES[x.dtype]


def _check_ends(ends, groups, rows):
    """The ends as int32. The device checks them too; errors from here name the group."""
    ends = np.asarray(ends)
    if ends.size and ends.dtype.kind not in "iu":
        raise TypeError(f"ends are of {ends.dtype}, not integers")
    if ends.shape != (groups,):
        raise InvalidError(f"ends are {ends.shape}, for {groups} groups")
    start = 0
    for i, end in enumerate(ends.tolist()):
        if not start <= end <= rows:
            raise InvalidError(f"problem {i}: ends at row {end}, begins at {start}, of {rows} rows")
        start = end
    return ends.astype(np.int32)


def _program(device, of, groups, bound, n, k, trans_b, bias, activation, compute):
    """A program of a device for such groups, one of the last KEPT."""
    key = ("program", of, groups, bound, n, k, trans_b, bias, activation, compute)
    kept = device._layers
    if key in kept:
        kept[key] = kept.pop(key)  # the last one now
        return kept[key]
    programs = [old for old in kept if old[0] == "program"]
    if len(programs) >= KEPT:
        kept.pop(programs[0]).close()
    options = {"type_a": of, "type_c": of} | _epilogue(bias, activation)
    if compute:
        options["compute"] = compute
    more = {"stride_bias": n} if bias else {}
    program = device.prepare_ragged(_core.ENDS_OF_ROWS, groups, bound, n, k, trans_b=trans_b,
                                    options=options, **more)
    kept[key] = _belonging(device, program)
    return program


def _buffer(device, name, count, of):
    """A buffer of a device for an operand of a type, at least so long."""
    kept, key = device._layers, (name, of)
    if key in kept and kept[key].count < count:
        kept.pop(key).close()
    if key not in kept:
        kept[key] = _belonging(device, device.buffer(1 << (count - 1).bit_length() if count else 1, of))
    return kept[key]


def _trim(device):
    """Closes buffers that are too large to keep."""
    for key, kept in list(device._layers.items()):
        if isinstance(kept, _core.Buffer) and kept.count > MOST:
            device._layers.pop(key).close()


def _belonging(device, made):
    """Lets the device keep what it made. The device closes it with itself, and it does not keep the
    device."""
    made._finalizer.detach()
    made._device = weakref.proxy(device)
    return made
