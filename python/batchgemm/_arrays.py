"""Products of NumPy arrays: matmul and grouped_mm of a Device."""

from __future__ import annotations

import ctypes
import functools
import weakref
from itertools import chain
from operator import attrgetter

import numpy as np

from . import _core
from ._abi import InvalidError, rest, single
from ._objects import end_of

TYPES = {np.dtype(np.float32): "f32", np.dtype(np.float16): "f16",
         np.dtype(np.float64): "f64"}
ACTIVATIONS = (None, "relu", "gelu", "silu")
ALIGN = 16  # bytes: where packed matrices begin, the widest load of kernels
KEPT = 16  # programs of grouped_mm that a device keeps
MOST = 8 << 20  # elements of a buffer that it keeps, or bytes of memory for copies
LARGE = 8192  # bytes of a matrix that is not copied on the CPU
PROBLEM = np.dtype(_core.Problem)


def matmul(device, a, b, out, bias, activation, alpha, compute, timeout):
    stacks = [x if isinstance(x, np.ndarray) else None for x in (a, b)]
    a, b = _matrices("a", a), _matrices("b", b)
    if len(a) != len(b):
        raise InvalidError(f"{len(a)} matrices in a, {len(b)} in b")
    if not a:
        return []
    of = _check("a", a)
    if _check("b", b) != of:
        raise TypeError(f"a is of {a[0].dtype}, b of {b[0].dtype}")
    shapes_a, shapes_b = _shapes(a), _shapes(b)
    for i in np.flatnonzero(shapes_a[:, 1] != shapes_b[:, 0])[:1]:
        raise InvalidError(f"problem {i}: a is {a[i].shape}, b is {b[i].shape}")
    shapes = np.stack([shapes_a[:, 0], shapes_b[:, 1]], 1)
    biases = _biases(bias, shapes, a[0].dtype)
    _check_activation(activation)
    if out is not None:
        out = _matrices("out", out)
        _check_out(out, shapes, a[0].dtype)

    problems = np.zeros(len(a), PROBLEM)
    problems["struct_size"], problems["alpha"] = PROBLEM.itemsize, single("alpha", alpha)
    problems["alpha64"] = rest(alpha)
    problems["m"], problems["n"], problems["k"] = *shapes.T, shapes_a[:, 1]
    options, given = {"type_a": of, "type_c": of}, {}
    if compute:
        options["compute"] = compute
    if biases is not None:
        columns = np.cumsum(problems["n"])
        problems["bias"] = columns - problems["n"]
        given["bias"] = biases.ctypes.data, biases.size, biases
    options |= _epilogue(biases is not None, activation)
    on_host = device.backend == "cpu"
    copies = device._layers.pop("copies", {})  # so that no other call uses them meanwhile
    for name, x, of_x, stack in ("a", a, shapes_a, stacks[0]), ("b", b, shapes_b, stacks[1]):
        placed = _place(x, of_x, stack, on_host, functools.partial(_memory, copies, name))
        trans, problems["offset_" + name], problems["ld" + name], given[name] = placed
        problems["flags"] = problems["flags"] + trans * (_core.TRANS_A if name == "a" else _core.TRANS_B)
    # The CPU sees for itself which matrices of float32 share memory.
    reads = () if on_host and of == "f32" else (given["a"], given["b"])
    placed = _place_results(out, shapes, a[0].dtype, reads, on_host)
    results, problems["offset_c"], problems["ldc"], given["c"] = placed
    batch = problems.ctypes.data_as(ctypes.POINTER(_core.Problem)), len(problems)
    device._gemm(batch, options, given, timeout)
    device._layers["copies"] = {name: memory for name, memory in copies.items() if memory.size <= MOST}
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
    dtype = getattr(arrays[0], "dtype", None)
    if set(map(type, arrays)) == {np.ndarray} and dtype in TYPES:  # many small ones fast
        of, dims = (list(map(attrgetter(name), arrays)) for name in ("dtype", "ndim"))
        if of.count(dtype) == dims.count(2) == len(arrays):
            return TYPES[dtype]
    dtype = None
    for i, x in enumerate(arrays):
        if not isinstance(x, np.ndarray):
            raise TypeError(f"problem {i}: {name} is a {type(x).__name__}, not a NumPy array")
        if x.ndim != 2:
            raise InvalidError(f"problem {i}: {name} has {x.ndim} dimensions, not 2")
        if x.dtype is dtype:
            continue
        if x.dtype not in TYPES:
            raise TypeError(f"problem {i}: {name} is of {x.dtype}, not float64, float32 or float16")
        if x.dtype != arrays[0].dtype:
            raise TypeError(f"problem {i}: {name} is of {x.dtype}, that of problem 0 of {arrays[0].dtype}")
        dtype = x.dtype
    return TYPES[dtype]


def _shapes(arrays):
    """The shapes of matrices, a row for each."""
    shapes = list(map(attrgetter("shape"), arrays))
    if shapes.count(shapes[0]) == len(shapes):
        return np.tile(shapes[0], (len(shapes), 1))
    return np.fromiter(chain.from_iterable(shapes), np.int64, 2 * len(shapes)).reshape(-1, 2)


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
    for i, (x, (_, n)) in enumerate(zip(bias, shapes.tolist())):
        if not isinstance(x, np.ndarray) or x.dtype != dtype:
            raise TypeError(f"problem {i}: bias is not an array of {dtype}")
        if x.shape != (n,):
            raise InvalidError(f"problem {i}: bias is {x.shape}, not {(n,)}")
    return np.concatenate(bias)


def _check_out(out, shapes, dtype):
    if len(out) != len(shapes):
        raise InvalidError(f"{len(out)} matrices in out, {len(shapes)} products")
    for i, (x, shape) in enumerate(zip(out, shapes.tolist())):
        if not isinstance(x, np.ndarray) or x.dtype != dtype:
            raise TypeError(f"problem {i}: out is not an array of {dtype}")
        if x.shape != tuple(shape):
            raise InvalidError(f"problem {i}: out is {x.shape}, the product is {tuple(shape)}")
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


def _place_results(out, shapes, dtype, reads, on_host=False):
    """Matrices for results, their offsets and leading dimensions, and address, length and keeper of the
    memory that has all. That is out, if kernels can write to it and it is apart from what they read; else new
    memory."""
    if out is not None:
        apart = on_host and dtype == np.float32 and _large(shapes, dtype.itemsize)
        trans, offsets, lds, on_c = _as_they_lie(out, apart) or ([True], None, None, None)
        lies_so = not any(trans) and not _interleave(out, lds)
        if lies_so and all(_apart(on_c, on, dtype.itemsize) for on in reads):
            return out, offsets, lds, on_c
    sizes = shapes[:, 0] * shapes[:, 1]
    starts, size = _one_after_the_other(sizes, dtype, 1 if on_host else ALIGN)
    c, (m, n) = np.empty(size, dtype), shapes[0].tolist()
    if (shapes == shapes[0]).all() and size == sizes.sum():
        results = list(c.reshape(len(shapes), m, n))
    else:
        results = [c[at:at + m * n].reshape(m, n) for at, (m, n) in zip(starts.tolist(), shapes.tolist())]
    return results, starts, shapes[:, 1], (_begin(c), c.size, c)


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


def _place(matrices, shapes, stack, on_host, empty):
    """Where the matrices of an operand are: whether each is transposed, its offset and leading dimension, and
    address, length and keeper of the memory that has all. A GPU uses views of one array where they are, if
    they are at least half of what they span, as it is sent all of that. The CPU uses a stack where it is, and
    large matrices anywhere; to find a small one takes longer than a copy. Others are copied, one after the
    other."""
    if not on_host:
        return _as_they_lie(matrices) or _packed(matrices, shapes, ALIGN, empty)
    if stack is not None:
        trans, ld, step, on = _stack(stack)
        return trans, step * np.arange(len(stack)), ld, on
    as_they_lie = _large(shapes, matrices[0].itemsize) and _as_they_lie(matrices, True)
    return as_they_lie or _packed(matrices, shapes, 1, empty)


def _large(shapes, size):
    return (shapes[:, 0] * shapes[:, 1]).sum() * size >= LARGE * len(shapes)


def _owner(x):
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


def _as_they_lie(matrices, apart=False):
    """_place() of matrices that are used where they are, or None. apart: they may be of several arrays."""
    first = _owner(matrices[0])
    if not apart and not all(_owner(x) is first for x in matrices[1:]):
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
    if not apart and high - low > 2 * sum(x.nbytes for x in matrices):
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


def _packed(matrices, shapes, align, empty):
    """_place() of copies, each stored as the first."""
    trans = bool(abs(matrices[0].strides[0]) < abs(matrices[0].strides[1]))
    if trans:
        matrices, shapes = [x.T for x in matrices], shapes[:, ::-1]
    dtype, sizes = matrices[0].dtype, shapes[:, 0] * shapes[:, 1]
    starts, size = _one_after_the_other(sizes, dtype, align)
    memory = empty(size, dtype)
    if sizes.sum() < size or not _join(matrices, memory):
        for x, at in zip(matrices, starts.tolist()):
            memory[at:at + x.size].reshape(x.shape)[...] = x
    return trans, starts, shapes[:, 1], (_begin(memory), size, memory)


def _join(matrices, memory, piece=64):
    """Copies matrices one after the other, many small ones in a third of NumPy's time. False if the rows of
    one do not follow each other."""
    to, at = memory.view(np.uint8).data, 0
    try:
        for i in range(0, len(matrices), piece):
            joined = b"".join(matrices[i:i + piece])
            to[at:at + len(joined)] = joined
            at += len(joined)
    except (BufferError, TypeError, ValueError):
        return False
    return True


def _memory(kept, name, size, dtype):
    """Memory of that name, or new memory: new pages take longer than the copy."""
    count = size * dtype.itemsize
    if name not in kept or kept[name].size < count:
        kept[name] = np.empty(count, np.uint8)
    return kept[name][:count].view(dtype)


def _one_after_the_other(sizes, dtype, align):
    """Where matrices of so many elements begin, each at a multiple of align bytes, and how many all are."""
    step = max(align // dtype.itemsize, 1)
    ends = np.cumsum(-(-sizes // step) * step)
    return ends - (-(-sizes // step) * step), int(ends[-1])


def grouped_mm(device, x, w, ends, bias, activation, compute, timeout):
    of = _check_grouped(x, w, bias, activation)
    rows, (groups, k, n) = len(x), w.shape
    ends = _check_ends(ends, groups, rows)
    end_of(timeout)
    if rows == 0 or n == 0 or groups == 0:
        return np.zeros((rows, n), x.dtype)
    result = np.empty((rows, n), x.dtype)
    run = _run_on_host if device.backend == "cpu" else _run_in_buffers
    run(device, of, x, w, ends, bias, result, activation, compute, timeout)
    result[ends[-1]:] = 0
    return result


def _run_on_host(device, of, x, w, ends, bias, result, activation, compute, timeout):
    """grouped_mm as a batch of the groups that have rows, of arrays where they are."""
    starts = np.concatenate([[0], ends[:-1]])
    used = np.flatnonzero(ends > starts)
    problems, options = np.zeros(len(used), PROBLEM), {"type_a": of, "type_c": of}
    if compute:
        options["compute"] = compute
    problems["struct_size"], problems["alpha"] = PROBLEM.itemsize, 1
    problems["m"], problems["n"], problems["k"] = (ends - starts)[used], w.shape[2], w.shape[1]
    trans_a, lda, _, on_a = _stack(x[None])
    trans_b, ldb, group, on_b = _stack(w)
    problems["flags"] = _core.TRANS_A * trans_a + _core.TRANS_B * trans_b
    problems["lda"], problems["offset_a"] = lda, starts[used] * (1 if trans_a else lda)
    problems["ldb"], problems["offset_b"] = ldb, used * group
    problems["ldc"], problems["offset_c"] = w.shape[2], starts[used] * w.shape[2]
    given = {"a": on_a, "b": on_b, "c": (_begin(result), result.size, result)}
    if bias is not None:
        _, ld, _, given["bias"] = _stack(bias[None], rows=True)
        problems["bias"] = used * ld
    batch = problems.ctypes.data_as(ctypes.POINTER(_core.Problem)), len(problems)
    device._gemm(batch, options | _epilogue(bias is not None, activation), given, timeout)


def _stack(x, rows=False):
    """Whether the matrices of a stack are stored transposed, which rows excludes, their leading dimension,
    the elements from one to the next, and address, length and keeper of the memory that has all. A stack that
    lies otherwise is copied."""
    layout = _layout(x[0])
    (low, high), step = _span(x), x.strides[0] if len(x) > 1 else 0
    if layout is None or rows and layout[0] or step < 0 or step % x.itemsize or low % x.itemsize:
        return _stack(np.array(x, order="C"), rows)
    count = (high - low) // x.itemsize if x.size else 0
    return *layout, step // x.itemsize, (low, count, x)


def _run_in_buffers(device, of, x, w, ends, bias, result, activation, compute, timeout):
    """grouped_mm by a program on copies in buffers. These are as long as its bounds ask for."""
    rows, (groups, k, n) = len(x), w.shape
    trans_b = not w.flags.c_contiguous and w.transpose(0, 2, 1).flags.c_contiguous
    given = {"a": x, "b": w.transpose(0, 2, 1) if trans_b else w, "sizes": ends}
    if bias is not None:
        given["bias"] = bias
    bound = 1 << (rows - 1).bit_length()  # numbers of rows that are near share a program
    counts = {name: data.size for name, data in given.items()}
    counts |= {"a": bound * k, "c": bound * n}
    types = {name: "f32" if name == "sizes" else of for name in counts}
    with device._lock:
        program = _program(device, of, groups, bound, n, k, trans_b, bias is not None, activation, compute)
        buffers = {name: _buffer(device, name, count, types[name]) for name, count in counts.items()}
        for name, data in given.items():
            buffers[name].write(np.require(data, requirements="CA").reshape(-1), timeout=timeout)
        program.run(**buffers)
        program.status(timeout)
        buffers["c"].read(result[:ends[-1]].reshape(-1), timeout=timeout)
        _trim(device)


def _begin(x):
    return x.__array_interface__["data"][0]


def _check_grouped(x, w, bias, activation):
    for name, data, dims in ("x", x, 2), ("w", w, 3), ("bias", bias, 2):
        if data is None and name == "bias":
            continue
        if not isinstance(data, np.ndarray) or data.dtype not in TYPES:
            raise TypeError(f"{name} is not a NumPy array of float64, float32 or float16")
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
