"""Whether programs are batch-invariant."""

INVARIANT = {}  # options of ragged programs
holders = []  # of programs: each a Programs of _programs.py


def set_batch_invariant(on):
    """Chooses whether a row of a result has the same bits whatever rows are beside it (batch invariance).

    Then it has the same bits however many rows there are in its group, in other groups and in other calls.
    That holds for grouped_mm, scaled_grouped_mm and int4_grouped_mm where offs cuts rows, and for experts,
    forward and backward, apart from gradients that are sums over rows. A program then has one tile shape,
    for groups of 64 rows. It takes longer where groups are much smaller or larger. It is for the process.
    CUDA graphs keep what they captured.

    Args:
        on: a bool. It is off at first.

    Raises:
        TypeError: on is no bool.

    Example:
        >>> from batchgemm.torch import set_batch_invariant
        >>> set_batch_invariant(True)
        >>> set_batch_invariant(False)
    """
    if not isinstance(on, bool):
        raise TypeError(f"on is {on!r}: it must be a bool")
    INVARIANT.clear()
    if on:
        INVARIANT["invariant"] = True
    for programs in holders:
        with programs.lock:
            programs.forget()
