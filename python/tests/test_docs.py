"""Tests of docstrings: every public name has the sections that apply, every parameter is described, and
examples run on the CPU. So does the code of docs/python.md and docs/pytorch.md, where these are."""

import ast
import doctest
import inspect
import os
import re
import textwrap
import unittest
from pathlib import Path
from unittest import mock

import batchgemm

try:
    import numpy
except ImportError:
    numpy = None
try:
    import batchgemm.torch as of_torch
except ImportError:
    of_torch = None

SECTIONS = "Args", "Shapes", "Returns", "Raises", "Example"
ARRAYS = {"matmul", "grouped_mm", "problem", "pack_int4", "unpack_int4", "group_words", "split_group_words",
          "quantize_int4", "pack_fp4", "unpack_fp4", "pack_checkpoint", "unpack_checkpoint",
          "scaled_grouped_mm", "int4_grouped_mm", "matmul_list", "experts", "route"}
REFER = "batchgemm.matmul() on", "batchgemm.grouped_mm() on"  # the same, elsewhere
WORDS = "7       5       3       1       6      4     2     0"  # which k's bits of a word of int4 have


def sections(doc):
    """What each section of a docstring has."""
    parts = re.split(r"^ *(" + "|".join(SECTIONS) + r"):$", inspect.cleandoc(doc), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def public(module):
    """The functions, classes and methods of a module, by their names."""
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing):
            yield name, thing
            if not issubclass(thing, (batchgemm.Error, batchgemm.Problem)):
                for method, value in inspect.getmembers(thing, inspect.isfunction):
                    if not method.startswith("_") and value.__module__.startswith("batchgemm"):
                        yield f"{name}.{method}", value


def returns(function):
    """Whether a function returns something."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(tree))


class Docs(unittest.TestCase):
    def check(self, name, thing):
        doc = thing.__doc__ or ""
        summary, *_ = doc.splitlines() or [""]
        self.assertRegex(summary, r"[.:]$|^$", f"{name}: the summary is one line")
        if doc.startswith(REFER) or inspect.isclass(thing) and issubclass(thing, batchgemm.Error):
            return self.assertTrue(summary, name)
        has = sections(doc)
        if inspect.isclass(thing):
            return self.assertIn("Example", has, name)
        parameters = [p for p in inspect.signature(thing).parameters if p != "self"]
        wanted = {"Args": parameters, "Shapes": name in ARRAYS, "Returns": returns(thing), "Raises": True,
                  "Example": "." not in name}
        self.assertEqual(sorted(has), sorted(section for section, there in wanted.items() if there), name)
        described = re.findall(r"^ {4}([\w, ]+):", has.get("Args", ""), flags=re.M)
        self.assertEqual({p for names in described for p in names.split(", ")}, set(parameters), name)

    def test_sections(self):
        for name, thing in public(batchgemm):
            with self.subTest(name):
                self.check(name, thing)

    def test_words_of_int4(self):
        """Whoever packs, or quantises, reads which bits are of which k."""
        for function in batchgemm.pack_int4, batchgemm.quantize_int4:
            self.assertIn(WORDS, function.__doc__)

    @unittest.skipIf(numpy is None, "needs NumPy")
    def test_examples(self):
        with mock.patch.dict(os.environ, BATCHGEMM_BACKEND="cpu"), mock.patch.object(
                batchgemm._device, "_default", batchgemm.open("cpu")):
            self.run_examples(batchgemm)
            batchgemm.default_device().close()

    @unittest.skipIf(numpy is None, "needs NumPy")
    def test_manual(self):
        with mock.patch.dict(os.environ, BATCHGEMM_BACKEND="cpu"), mock.patch.object(
                batchgemm._device, "_default", batchgemm.open("cpu")):
            self.run_manual("python.md")
            batchgemm.default_device().close()

    def run_manual(self, name):
        """Runs all code of a manual, one block after the other."""
        here = Path(__file__).resolve().parent
        found = [file for file in (here / name, *(above / "docs" / name for above in here.parents[1:2]))
                 if file.exists()]
        if not found:
            self.skipTest(f"{name} is not here")
        code = re.findall(r"^```python\n(.*?)^```", found[0].read_text(), flags=re.M | re.S)
        self.assertGreater(len(code), 1)
        exec(compile("\n".join(code), name, "exec"), {"__name__": name})

    def run_examples(self, module):
        finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(verbose=False)
        for name, thing in public(module):
            if "." not in name:
                for test in finder.find(thing, name, module=False, globs={}):
                    said = []
                    runner.run(test, out=said.append)
                    self.assertEqual("".join(said), "", name)


@unittest.skipIf(of_torch is None, "no PyTorch")
class DocsOfTorch(Docs):
    test_words_of_int4 = None

    def test_sections(self):
        for name, thing in public(of_torch):
            with self.subTest(name):
                self.check(name, thing)
        self.assertIn(WORDS, of_torch.int4_grouped_mm.__doc__)

    def test_examples(self):
        self.run_examples(of_torch)

    def test_manual(self):
        self.run_manual("pytorch.md")


if __name__ == "__main__":
    unittest.main()
