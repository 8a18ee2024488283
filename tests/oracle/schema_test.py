#!/usr/bin/env python3
"""Holds what fusecalc reads and writes against the schemas that it prints, with jsonschema.

    schema_test.py BINARY TESTS_FOLDER
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    sys.exit("schema_test.py needs the Python package jsonschema (Debian: python3-jsonschema)")

BINARY = ""
TESTS = pathlib.Path()


def fusecalc(*arguments, text=""):
    run = subprocess.run([BINARY, *arguments], input=text, capture_output=True, text=True,
                         encoding="utf-8", check=True)
    return run.stdout


def validator(name):
    schema = json.loads(fusecalc("schema", name))
    return jsonschema.Draft202012Validator(schema)


def golden_lists():
    return sorted((TESTS / "golden/sizes/lists").glob("*.json"))


def without(document, key):
    return {k: v for k, v in document.items() if k != key}


class Schemas(unittest.TestCase):
    def test_are_valid_2020_12_schemas(self):
        for name in ("analysis", "comparison", "device", "devices", "import", "measurement", "ops", "ops-table", "profile", "sizes", "specs",
                     "sweep", "tolerances"):
            schema = json.loads(fusecalc("schema", name))
            self.assertEqual(schema["$schema"], "https://json-schema.org/draft/2020-12/schema")
            jsonschema.Draft202012Validator.check_schema(schema)

    def test_are_the_files_of_the_source_tree(self):
        for path in (TESTS.parent / "specs/schema").glob("*.schema.json"):
            name = path.name.split(".")[0]
            self.assertEqual(fusecalc("schema", name), path.read_text(encoding="utf-8"))


class Library(unittest.TestCase):
    """Every op list that comes with fusecalc, and what is made of it."""

    def test_is_valid_and_so_is_its_analysis(self):
        ops, analysis = validator("ops"), validator("analysis")
        paths = sorted((TESTS.parent / "specs/oplists").glob("*.json"))
        self.assertGreater(len(paths), 0)
        for path in paths:
            with self.subTest(path.stem):
                ops.validate(json.loads(path.read_text(encoding="utf-8")))
                result = json.loads(fusecalc("analyze", "@" + path.stem))
                analysis.validate(result)
                self.assertEqual(result["name"], path.stem)

    def test_describes_what_import_writes(self):
        for path in sorted((TESTS / "input/pt2").glob("*.pt2")):
            with self.subTest(path.name):
                validator("ops").validate(json.loads(fusecalc("import", str(path))))

    def test_schema_knows_every_op(self):
        listed = [op["op"] for op in json.loads(fusecalc("ops", "--format", "json"))["ops"]]
        schema = json.loads(fusecalc("schema", "ops"))
        self.assertEqual(schema["$defs"]["op"]["properties"]["op"]["enum"], listed)

    def test_schema_has_teeth(self):
        ops = validator("ops")
        good = {"ops": [{"op": "relu", "inputs": ["x"], "output": "y"}],
                "tensors": {"x": {"shape": ["N", 4]}}, "dims": {"N": 3}}
        ops.validate(good)
        for bad in (without(good, "ops"), good | {"dims": {"N": -1}}, good | {"oops": []},
                    good | {"dtype": "float"}, good | {"ops": [{"op": "relu", "inputs": ["x"]}]},
                    good | {"ops": [{"op": "rellu", "inputs": ["x"], "output": "y"}]},
                    good | {"tensors": {"x": {"shape": [1.5]}}}):
            self.assertFalse(ops.is_valid(bad), bad)


class Listings(unittest.TestCase):
    """What `ops`, `specs` and `devices` print."""

    def test_are_valid_with_numbers_as_numbers(self):
        ops = json.loads(fusecalc("ops", "--format", "json"))
        validator("ops-table").validate(ops)
        rows = {row["op"]: row for row in ops["ops"]}
        self.assertEqual(rows["clamp"]["inputs"], {"min": 1, "max": 3})
        self.assertEqual(rows["concat"]["inputs"], {"min": 2, "max": None})
        self.assertEqual(rows["layer_norm"]["flops"], 7)
        self.assertEqual(rows["layer_norm"]["attributes"], ["axes", "eps"])
        self.assertIsNone(rows["matmul"]["flops"])
        specs = json.loads(fusecalc("specs", "--format", "json"))
        validator("specs").validate(specs)
        for row in specs["specs"]:
            self.assertEqual(row["ops"], len(row["kinds"]))
        devices = json.loads(fusecalc("devices", "--format", "json"))
        validator("devices").validate(devices)
        for row in devices["devices"]:
            validator("device").validate(json.loads(fusecalc("devices", row["device"])))

    def test_numbers_in_strings_are_refused(self):
        ops = json.loads(fusecalc("ops", "--format", "json"))
        specs = json.loads(fusecalc("specs", "--format", "json"))
        for key, value in (("flops", "1"), ("passes", "1"), ("inputs", "1"), ("attributes", "")):
            bad = ops | {"ops": [ops["ops"][0] | {key: value}]}
            self.assertFalse(validator("ops-table").is_valid(bad), key)
        for key, value in (("ops", "1"), ("kinds", "add mul")):
            bad = specs | {"specs": [specs["specs"][0] | {key: value}]}
            self.assertFalse(validator("specs").is_valid(bad), key)
        devices = json.loads(fusecalc("devices", "--format", "json"))
        bad = devices | {"devices": [devices["devices"][0] | {"l2_bytes": "1"}]}
        self.assertFalse(validator("devices").is_valid(bad))


class Analysis(unittest.TestCase):
    def setUp(self):
        self.schema = validator("analysis")
        self.good = json.loads(fusecalc(
            "analyze", "-", text='[{"input_size": 1, "output_size": 2}]'))

    def test_real_output_is_valid(self):
        paths = golden_lists()
        self.assertGreater(len(paths), 5)
        for path in paths:
            with self.subTest(path.name):
                self.schema.validate(json.loads(fusecalc("analyze", str(path), "-f", "json")))

    def test_negative_savings_are_valid(self):
        self.schema.validate({**self.good, "savings_bytes": -8, "savings_pct": -50.0})

    def test_every_key_that_all_documents_have_is_required(self):
        for key in self.good:
            with self.subTest(key):
                valid = self.schema.is_valid(without(self.good, key))
                self.assertEqual(valid, key in ("speedup_estimate", "dtype_bytes"))

    def test_nothing_else_is_allowed(self):
        self.assertFalse(self.schema.is_valid({**self.good, "speedup": 1.0}))
        self.assertFalse(self.schema.is_valid([self.good]))

    def test_wrong_values_are_refused(self):
        wrong = {
            "schema": ["fusecalc.analysis/2", "", 1, None],
            "name": [None, 3, ["a"]],
            "plan": ["best", "", None],
            "unfused_bytes": [-1, 2**63, 1.5, "8", None, True],
            "fused_bytes": [-1, 2**63, 1.5, "8", None, True],
            "savings_bytes": [2**63, -2**63, 0.5, "8", None],
            "savings_pct": [100.01, "50", None],
            "speedup_estimate": [-0.5, "1.0", None],
            "dtype_bytes": [0, -2, 2**63, 1.5, "2", None],
        }
        self.assertEqual(set(wrong), set(self.good))
        for key, values in wrong.items():
            for value in values:
                with self.subTest(key=key, value=value):
                    self.assertFalse(self.schema.is_valid({**self.good, key: value}))


class Measurement(unittest.TestCase):
    def test_what_was_measured_on_devices_is_valid(self):
        schema = validator("measurement")
        results = TESTS.parent / "specs/results"
        paths = sorted(results.glob("*/*/*.measured.json"))
        self.assertGreater(len(paths), 50)
        for path in paths:
            with self.subTest(path.name):
                schema.validate(json.loads(path.read_text(encoding="utf-8")))


class Sweep(unittest.TestCase):
    def sweep(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([BINARY, "sweep", *arguments, "--dir", folder], capture_output=True,
                                 text=True, encoding="utf-8")
            return json.loads(run.stdout)

    def test_what_was_measured_on_devices_is_valid(self):
        schema = validator("sweep")
        paths = sorted((TESTS.parent / "specs/results").glob("**/*.sweep.json"))
        self.assertGreater(len(paths), 1)
        for path in paths:
            with self.subTest(path.name):
                schema.validate(json.loads(path.read_text(encoding="utf-8")))

    def test_real_output_is_valid(self):
        schema = validator("sweep")
        sweep = self.sweep("@softmax", "@adam", "--device", "h200,t4",
                           "--dim", "N=8,1048576,9223372036854775807")
        states = {point["state"] for point in sweep["points"]}
        self.assertEqual(states, {"done", "failed"})
        schema.validate(sweep)
        sizes = self.sweep(str(golden_lists()[0]))
        schema.validate(sizes)
        for key in sweep:
            with self.subTest(key):
                self.assertFalse(schema.is_valid(without(sweep, key)))
        done = next(point for point in sweep["points"] if point["state"] == "done")
        for bad in (without(done, "best"), {**done, "state": "failed"}, {**done, "best_by": "luck"},
                    {**done, "plans": {"auto": {}}}):
            self.assertFalse(schema.is_valid({**sweep, "points": [bad]}))


class Sizes(unittest.TestCase):
    def setUp(self):
        self.schema = validator("sizes")
        self.operation = {"name": "a", "input_size": 1, "output_size": 2}

    def test_every_good_list_is_valid(self):
        for path in golden_lists():
            with self.subTest(path.name):
                self.schema.validate(json.loads(path.read_text(encoding="utf-8")))

    def test_wrong_documents_are_refused(self):
        good = {"name": "n", "dtype_bytes": 2, "operations": [self.operation]}
        self.schema.validate(good)
        self.schema.validate(good["operations"])
        mutants = [without(good, "operations"), {**good, "extra": 1}, {**good, "name": 1}]
        mutants += [{**good, "dtype_bytes": value} for value in (0, -2, 1.5, "2", None, 2**63)]
        mutants += [{**good, "operations": value} for value in ({}, None, "a", [[]], [1])]
        for key in ("input_size", "output_size"):
            mutants.append([without(self.operation, key)])
            mutants += [[{**self.operation, key: value}]
                        for value in (-1, 0.5, 2**63, "8", None, True, [8])]
        mutants += [[{**self.operation, "flops": 1}], [{**self.operation, "name": None}]]
        for mutant in mutants:
            with self.subTest(json.dumps(mutant)):
                self.assertFalse(self.schema.is_valid(mutant))
                with self.assertRaises(subprocess.CalledProcessError):
                    fusecalc("analyze", "-", text=json.dumps(mutant))

    def test_what_the_schema_alone_can_tell_of_the_bad_documents_it_tells(self):
        beyond = ("duplicate key", "in plain digits", "add up to", " elements of ", "not JSON",
                  "over 1000 characters")
        told = 0
        for line in (TESTS / "bad/sizes/expected.txt").read_text(encoding="utf-8").split("\n"):
            # A nesting bomb is cut off, so no JSON; the reader stops before it could know.
            if not line or "nested-" in line or any(words in line for words in beyond):
                continue
            document = line.split(": ")[1]
            text = (TESTS / "bad/sizes" / document).read_text(encoding="utf-8")
            if document == "json-lines.json":
                text = text.splitlines()[0]
            with self.subTest(document):
                self.assertFalse(self.schema.is_valid(json.loads(text)))
                told += 1
        self.assertGreater(told, 50)


if __name__ == "__main__":
    BINARY, TESTS = sys.argv[1], pathlib.Path(sys.argv[2])
    unittest.main(argv=sys.argv[:1])
