"""Holds the Python module of an installed wheel against the program's contract.

    PYTHON_OF_ITS_ENVIRONMENT python_api_test.py SOURCE_FOLDER
"""

import importlib.resources
import pathlib
import subprocess
import sys
import tempfile
import unittest

import fusecalc

SOURCE = pathlib.Path(sys.argv[1])
SIZES = [{"input_size": 1000, "output_size": 1000}, {"input_size": 1000, "output_size": 1}]
GRAPH = {"format": "fusecalc.ops/1", "name": "two", "dtype": "f32", "dims": {"N": 1000},
         "tensors": {"x": {"shape": ["N"]}},
         "ops": [{"op": "relu", "inputs": ["x"], "output": "h"},
                 {"op": "exp", "inputs": ["h"], "output": "y"}]}


class Analyze(unittest.TestCase):
    def test_op_lists_that_are_python_objects(self):
        sizes = fusecalc.analyze(SIZES)
        # 3001 elements are read or written between the operations and outside; of 2 bytes.
        self.assertEqual((sizes["unfused_bytes"], sizes["fused_bytes"]), (6002, 2002))
        self.assertEqual(fusecalc.analyze(SIZES, dtype_bytes=4)["unfused_bytes"], 12004)
        graph = fusecalc.analyze(GRAPH)
        self.assertEqual((graph["schema"], graph["name"]), ("fusecalc.analysis/1", "two"))
        self.assertEqual((graph["unfused_bytes"], graph["fused_bytes"]), (16000, 8000))

    def test_files_and_the_library(self):
        by_name = fusecalc.analyze("@adam")
        path = SOURCE / "specs/oplists/adam.json"
        self.assertEqual(fusecalc.analyze(path)["plans"], by_name["plans"])
        self.assertEqual(fusecalc.analyze(str(path))["plans"], by_name["plans"])
        with tempfile.TemporaryDirectory() as folder:
            missing = pathlib.Path(folder) / "-o"
            with self.assertRaisesRegex(fusecalc.Error, "-o"):
                fusecalc.analyze(missing.name)
            self.assertFalse(missing.exists())

    def test_options(self):
        self.assertEqual(fusecalc.analyze(GRAPH, dims={"N": 50})["unfused_bytes"], 800)
        self.assertEqual(fusecalc.analyze(GRAPH, plan="unfused")["plan"], "unfused")
        self.assertNotEqual(fusecalc.analyze(GRAPH, device="t4")["plans"]["auto"]["predicted"],
                            fusecalc.analyze(GRAPH, device="h100")["plans"]["auto"]["predicted"])

    def test_errors_carry_line_and_exit_code(self):
        wrong = {**GRAPH, "ops": [{"op": "relu", "inputs": ["xx"], "output": "y"}]}
        with self.assertRaises(fusecalc.Error) as caught:
            fusecalc.analyze(wrong)
        self.assertEqual(caught.exception.exit_code, 2)
        self.assertTrue(caught.exception.line.startswith("fusecalc: "), caught.exception.line)
        self.assertIn('unknown tensor "xx"', str(caught.exception))
        with self.assertRaisesRegex(fusecalc.Error, "--plan"):
            fusecalc.analyze(GRAPH, plan="none such")

    def test_the_package_is_typed_and_runs_as_a_module(self):
        self.assertTrue((importlib.resources.files(fusecalc) / "py.typed").is_file())
        told = subprocess.run([sys.executable, "-m", "fusecalc", "--version"], check=True,
                              capture_output=True, text=True).stdout
        self.assertEqual(told, f"fusecalc {fusecalc.__version__}\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
