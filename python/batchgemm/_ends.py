"""Where groups end: checks for those who can wait, and what is after the last end."""

import torch

from ._core import NAN_ROWS, ZERO_ROWS


def flag_of(fill):
    """The flag of bg_ragged for a fill, or 0."""
    if fill is None:
        return 0
    if fill == 0:
        return ZERO_ROWS
    if fill != fill:
        return NAN_ROWS
    raise ValueError(f"fill is {fill!r}: it must be None, 0 or NaN")


def check_ends(offs, extent):
    """Raises a ValueError that names the first group with a wrong end. extent: how much there is to cut. On a
    GPU it waits."""
    last = 0
    for group, end in enumerate(offs.tolist()):
        if end > extent:
            raise ValueError(f"offs: group {group} ends at {end}, beyond the {extent} that there are")
        if end < last:
            start = f"group {group - 1}, which ends at {last}" if group else "0"
            raise ValueError(f"offs: group {group} ends at {end}, before {start}")
        last = end


def check_call(x, w, offs):
    """check_ends() for a call. The call itself finds other mistakes."""
    cut = (x.dim(), w.dim()) in ((2, 2), (2, 3), (3, 2), (2, 4))
    if offs is None or offs.dtype != torch.int32 or offs.dim() != 1 or not cut:
        return
    if offs.is_cuda and torch.cuda.is_current_stream_capturing():
        raise RuntimeError("batchgemm: check waits for the device, which a CUDA graph cannot capture")
    check_ends(offs, x.shape[0] if w.dim() > 2 else w.shape[1] if x.dim() == 3 else w.shape[0])
