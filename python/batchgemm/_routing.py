"""From a router's choices to lists for programs, and back to a row for each token. Nothing waits for the
device.

A layer has a row for each choice that counts, by expert, and within an expert by token. Choice j of token t
has the slot t * k + j."""

from typing import NamedTuple

import torch

from ._programs import bound

MOST_CHOICES = 16  # of a token


class Lists(NamedTuple):
    """The rows of a layer. What is beyond the last end is undefined."""

    words: torch.Tensor  # int32: ends, padded to first, then tokens, slots and weights, span of each
    experts: int
    tokens: int
    top: int

    @property
    def rows(self):
        """How many there are at most."""
        return self.tokens * self.top

    @property
    def most_tokens(self):
        """That of a program, which numbers of tokens share."""
        return bound(self.tokens)

    @property
    def span(self):
        return self.most_tokens * self.top

    @property
    def first(self):
        return -(-self.experts // 64) * 64

    @property
    def ends(self):
        """Where the rows of each expert end."""
        return self.words[: self.experts]

    def _list(self, number):
        return self.words.narrow(0, self.first + number * self.span, self.rows)

    @property
    def weights(self):
        """That of each row."""
        return self._list(2).view(torch.float32)

    def row_tokens(self):
        """The token of each row, or 0 where there is none."""
        return torch.where(self._there(), self._list(0), 0)

    def to_slots(self, values):
        """The values of rows, [rows], by slot: 0 where a choice does not count."""
        slots = torch.where(self._there(), self._list(1), self.rows)
        return values.new_zeros(self.rows + 1).scatter_(0, slots.long(), values)[:-1]

    def _there(self):
        return torch.arange(self.rows, device=self.words.device) < self.ends[-1]


def route(index, weights, experts):
    """The Lists of index and weights [T, k]."""
    chosen, slots = numbers(index, experts).reshape(-1).sort(stable=True)
    lists = Lists(chosen, experts, *index.shape)
    lists = lists._replace(words=chosen.new_empty(lists.first + 3 * lists.span))
    each = torch.arange(experts, device=index.device, dtype=torch.int32)
    lists.ends.copy_(torch.searchsorted(chosen, each, right=True))
    for number, values in enumerate((slots // lists.top, slots)):
        lists._list(number).copy_(values)
    lists.weights.copy_(weights.reshape(-1)[slots])
    return lists


def combine(rows, index, experts):
    """The sum over the slots of each token, [T, H], in order and in fp32. Rows of slots that do not count may
    be anything."""
    each = rows.view(*index.shape, rows.shape[1])
    return torch.where((numbers(index, experts) < experts)[..., None], each, 0).sum(1)


def numbers(index, experts):
    """index as int32, and experts where it is the number of none."""
    return torch.where((index < 0) | (index >= experts), experts, index).int()
