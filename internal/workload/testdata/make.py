"""Writes the .npz files of the tests. Needs NumPy."""
import numpy as np


def ramp(rows, cols, start):
    return (start + np.arange(rows * cols, dtype=np.float32)).reshape(rows, cols)


np.savez_compressed(
    "numpy.npz",
    A0=ramp(2, 3, 1), B0=ramp(3, 4, 1),
    A1=np.asfortranarray(ramp(3, 2, 5)), B1=np.asfortranarray(ramp(2, 2, 9)), C1=ramp(3, 2, -3),
    A2=ramp(0, 5, 0), B2=ramp(5, 3, 0),
    A3=ramp(2, 0, 0), B3=ramp(0, 2, 0), C3=ramp(2, 2, 7),
)
np.savez_compressed("fortran-c.npz", A0=ramp(2, 3, 1), B0=ramp(3, 4, 1), C0=np.asfortranarray(ramp(2, 4, 0)))
