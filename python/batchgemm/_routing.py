"""From a router's choices to lists for programs, and back to a row for each token. Nothing waits for the
device.

A layer has a row for each choice that counts, by expert, and within an expert by token. Choice j of token t
has the slot t * k + j."""

import functools
from typing import NamedTuple

import torch

from ._operators import library
from ._programs import ALIGN, MOST_GROUPS, TYPES, bound, programs_of

MOST_CHOICES = 16  # of a token
INDEX = {torch.int32: "int32", torch.int64: "int64"}


class _Routing(NamedTuple):
    """A Call of _programs.py that routes."""

    key: tuple

    def prepare(self, device):
        _, tokens, top, experts, index, type = self.key
        return device.prepare_routing(tokens, top, experts, index=index, type=type)


class _Combining(NamedTuple):
    """A Call that sums the rows of each token."""

    key: tuple

    def prepare(self, device):
        _, tokens, top, experts, hidden, index, type = self.key
        return device.prepare_combine(tokens, top, experts, hidden, index=index, type=type)


def routing(index, weights, experts):
    tokens, top = index.shape
    return _Routing(("route", bound(tokens), top, experts, INDEX[index.dtype], TYPES[weights.dtype]))


def combining(index, experts, hidden, dtype):
    tokens, top = index.shape
    return _Combining(("combine", bound(tokens), top, experts, hidden, INDEX[index.dtype], TYPES[dtype]))


def first_list(experts):
    """Where lists begin, after the ends: tokens, slots and weights."""
    return -(-experts // 64) * 64


def words_of(tokens, top, experts):
    """How many words a routing makes, at most: bound(tokens) <= tokens + tokens // 8."""
    return first_list(experts) + 3 * (tokens + tokens // 8) * top


class Calls(tuple):
    """Calls that run one after the other. It equals itself alone, so that a look-up compares no keys."""

    __eq__, __hash__ = object.__eq__, object.__hash__


@functools.lru_cache(maxsize=4096)
def calls_of(*calls):
    return Calls(calls)


class Step(NamedTuple):
    """A run of a program. operands: tensors that stay until it is queued."""

    call: tuple
    addresses: tuple
    operands: tuple


def queue(steps):
    """Runs them one after the other."""
    if not steps:
        return
    calls, addresses, operands = zip(*steps)
    programs_of(operands[0][0].get_device()).run_all(calls_of(*calls), addresses)


class Lists(NamedTuple):
    """The rows of a layer, as a routing writes them. What is after the last end stays as it was."""

    words: torch.Tensor  # int32
    experts: int
    tokens: int
    top: int
    most: int  # tokens of a program, which numbers of tokens share
    first: int  # where lists begin: tokens, slots and weights

    @property
    def rows(self):
        """How many there are at most."""
        return self.tokens * self.top

    @property
    def ends(self):
        """Where the rows of each expert end."""
        return self.words[: self.experts]

    @property
    def row_tokens(self):
        """The token of each row."""
        return self._list(0)

    @property
    def slots(self):
        """The slot of each row."""
        return self._list(1)

    @property
    def weights(self):
        """That of each row."""
        return self._list(2).view(torch.float32)

    def to_slots(self, values):
        """The values of rows, [rows], by slot: 0 where a choice does not count."""
        there = torch.arange(self.rows, device=self.words.device) < self.ends[-1]
        slots = torch.where(there, self.slots, self.rows)
        return values.new_zeros(self.rows + 1).scatter_(0, slots.long(), values)[:-1]

    def _list(self, number):
        return self.words.narrow(0, self.first + number * self.most * self.top, self.rows)


def lists_in(words, index, experts):
    """The Lists of choices [T, k] in the words of a routing."""
    tokens, top = index.shape
    return Lists(words, experts, tokens, top, bound(tokens), first_list(experts))


def new_lists(index, experts, fill=0):
    """Lists for a routing. fill: what is after the last end."""
    words = index.new_full((words_of(*index.shape, experts),), fill, dtype=torch.int32)
    return lists_in(words, index, experts)


def fill_lists(lists, index, weights):
    """The Step that routes. index and weights [T, k] are dense()."""
    at = weights.data_ptr(), 0, lists.words.data_ptr(), index.data_ptr(), 0, 0, 0, lists.tokens
    return Step(routing(index, weights, lists.experts), at, (lists.words, index, weights))


def combine(rows, y, index, experts):
    """The Step that gives y [T, H], the sums over the slots of each token, in order and in fp32. Rows of
    slots that do not count may be anything. index is dense()."""
    at = rows.data_ptr(), 0, y.data_ptr(), index.data_ptr(), 0, 0, 0, len(index)
    return Step(combining(index, experts, y.shape[1], y.dtype), at, (rows, y, index))


def numbers(index, experts):
    """index as int32, and experts where it is the number of none."""
    return torch.where((index < 0) | (index >= experts), experts, index).int()


def dense(t):
    """A tensor whose elements follow each other from an aligned address on: a copy where they do not."""
    fits = t.is_contiguous() and t.data_ptr() % ALIGN == 0
    return t if fits else t.clone(memory_format=torch.contiguous_format)


def check_choices(index, experts):
    if index.dtype not in INDEX:
        raise TypeError(f"index is {index.dtype}: it must be int32 or int64")
    if len(index.shape) != 2 or index.shape[1] > MOST_CHOICES:
        raise ValueError(f"index has the shape {tuple(index.shape)}: it must be (T, k), of up to "
                         f"{MOST_CHOICES} choices for each token")
    if not 0 <= experts <= MOST_GROUPS:
        raise ValueError(f"{experts} experts: there may be {MOST_GROUPS}")


def route(index, num_experts):
    """Puts a router's choices in the order of experts, on the device, without a wait.

    The rows that it makes are those of grouped_mm(): x[tokens] of x [T, H], by expert, and within an expert
    by token.

    Args:
        index: int32 or int64, the experts of each token, up to 16. Choices below 0 or from num_experts on do
            not count.
        num_experts: E, up to 4096.

    Shapes:
        index [T, k], ends [E], tokens and slots [T * k].

    Returns:
        ends, tokens, slots, all int32: where the rows of each expert end, the token t of each row, and
        t * k + j of its choice j. After the last end tokens and slots are -1.

    Raises:
        TypeError, ValueError: an argument is wrong; the text names it.

    Example:
        >>> import torch
        >>> from batchgemm.torch import route
        >>> ends, tokens, slots = route(torch.tensor([[2, 0], [0, 9]]), 3)
        >>> ends.tolist(), tokens.tolist(), slots.tolist()
        ([2, 2, 3], [0, 1, 0, -1], [1, 2, 0, -1])
    """
    return torch.ops.batchgemm.route.default(index, num_experts)


def _route(index, experts):
    check_choices(index, experts)
    if index.numel() == 0 or experts == 0:
        return index.new_zeros(experts, dtype=torch.int32), *(
            index.new_full((index.numel(),), -1, dtype=torch.int32) for _ in range(2))
    lists = new_lists(index, experts, fill=-1)
    queue([fill_lists(lists, dense(index), index.new_empty(index.shape, dtype=torch.float32))])
    return lists.ends.clone(), lists.row_tokens.clone(), lists.slots.clone()


def _fake(index, experts):
    check_choices(index, experts)
    rows = index.shape[0] * index.shape[1]
    return tuple(index.new_empty(n, dtype=torch.int32) for n in (experts, rows, rows))


library.define("route(Tensor index, SymInt experts) -> (Tensor, Tensor, Tensor)")
for _kind in "CPU", "CUDA":
    library.impl("route", _route, _kind)
torch.library.register_fake("batchgemm::route", _fake, lib=library)
