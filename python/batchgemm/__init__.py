"""batchgemm: many matrix products of different sizes at once, on whatever GPU is there."""

from ._core import (ENDS_OF_DEPTH, ENDS_OF_ROWS, RECORDS, TRANS_A, TRANS_B, ZERO_ROWS, Buffer, Device, Error, Plan,
                    Problem, Program, Read, open, pointers, problem)

__all__ = ["ENDS_OF_DEPTH", "ENDS_OF_ROWS", "RECORDS", "TRANS_A", "TRANS_B", "ZERO_ROWS", "Buffer", "Device", "Error",
           "Plan", "Problem", "Program", "Read", "open", "pointers", "problem"]
