#!/usr/bin/env python3
"""What CI systems read: annotations, JUnit's XML, benchmark entries, the action and the template.

    ci_test.py BINARY SOURCE_FOLDER
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

try:
    import yaml
except ImportError:
    sys.exit("ci_test.py needs the Python package yaml (Debian: python3-yaml)")

BINARY, SOURCE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])

LIST = {"dtype": "f32", "tensors": {"x": {"shape": [1000]}},
        "ops": [{"name": "up", "op": "exp", "inputs": ["x"], "output": "e"},
                {"name": "down", "op": "log1p", "inputs": ["e"], "output": "y"}]}

# Jenkins' junit-10.xsd: attributes (those marked ! are required) and children of each element.
TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?")
JUNIT = {
    "testsuites": ("name time tests failures errors", {"testsuite"}),
    "testsuite": ("name! tests! failures! errors! group time skipped timestamp hostname id package "
                  "file log url", {"testcase", "system-out", "system-err", "properties"}),
    "testcase": ("name! time classname group", {"failure", "error", "skipped", "system-out"}),
    "failure": ("type message", set()),
    "skipped": ("type message", set()),
    "system-out": ("", set()),
}


def junit_faults(element):
    attributes, children = JUNIT[element.tag]
    names = [name.rstrip("!") for name in attributes.split()]
    for name, value in element.attrib.items():
        if name not in names:
            yield f"{element.tag} has {name}"
        if name == "time" and not TIME.fullmatch(value):
            yield f"{value} is no time"
    for name in attributes.split():
        if name.endswith("!") and name[:-1] not in element.attrib:
            yield f"{element.tag} lacks {name[:-1]}"
    for child in element:
        if child.tag not in children:
            yield f"{element.tag} holds {child.tag}"
        else:
            yield from junit_faults(child)


def annotations_of(text):
    """(severity, properties, message) of every workflow command, decoded."""
    def decoded(value):
        return re.sub("%(25|0D|0A|3A|2C)", lambda m: chr(int(m[1], 16)), value)
    for line in text.splitlines():
        match = re.fullmatch(r"::(error|warning|notice) ([^:]*)::(.*)", line)
        if match:
            properties = dict(part.split("=", 1) for part in match[2].split(","))
            yield match[1], {key: decoded(value) for key, value in properties.items()}, decoded(match[3])


class CiTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        for name in ("nets", "baseline", "tmp"):
            (self.root / name).mkdir()

    def run_in(self, *command, code=0, **environment):
        plain = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
        plain["PATH"] = f"{BINARY.parent}:{plain['PATH']}"
        run = subprocess.run([str(word) for word in command], cwd=self.root, capture_output=True,
                             text=True, encoding="utf-8", check=False, env={**plain, **environment})
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run

    def write_list(self, name="mlp", fuse=True, ops=None):
        """An op list, one op a line from line 4 on."""
        document = {**LIST, "ops": ops or LIST["ops"]}
        lines = ",\n".join(json.dumps(op) for op in document.pop("ops"))
        document["fuse"] = [[op["name"] for op in ops or LIST["ops"]]] if fuse else []
        text = json.dumps(document)[1:-1]
        (self.root / f"nets/{name}.json").write_text(f'{{{text},\n\n "ops": [\n{lines}]}}\n',
                                                     encoding="utf-8")

    def analyze(self, name, result):
        self.run_in(BINARY, "analyze", f"nets/{name}.json", "-f", "csv", "-o", result,
                    GITHUB_ACTIONS="true")

    def worse(self, name="mlp", **options):
        """Results of an op list whose ops are fused, and are not."""
        for fuse, result in ((True, "base.json"), (False, "new.json")):
            self.write_list(name, fuse, **options)
            self.analyze(name, result)

    def actions(self, *arguments, code=0, **environment):
        return self.run_in(BINARY, "compare", *arguments, code=code, GITHUB_ACTIONS="true",
                           GITHUB_WORKSPACE=str(self.root),
                           GITHUB_STEP_SUMMARY=str(self.root / "summary.md"), **environment).stdout

    def test_annotations_name_the_op_that_got_worse(self):
        self.worse()
        output = self.actions("base.json", "new.json", code=1)
        self.assertTrue(output.startswith("base.json -> new.json\n"), output)
        found = list(annotations_of(output))
        self.assertEqual([(severity, place["file"], place["line"]) for severity, place, _ in found],
                         [("error", "nets/mlp.json", "4")] * 2)
        self.assertIn("+100.00 %", found[0][2])
        self.assertEqual(found[0][1]["title"], "fusecalc: mlp worse")
        # The second op is on the next line.
        document = json.loads((self.root / "new.json").read_text(encoding="utf-8"))
        for kernel in document["plans"]["explicit"]["kernels"]:
            if kernel["name"] == "down":
                kernel["read"] += 4
        document["plans"]["explicit"]["total"] += 4
        (self.root / "more.json").write_text(json.dumps(document), encoding="utf-8")
        lines = [place["line"] for _, place, _ in
                 annotations_of(self.actions("new.json", "more.json", code=1))]
        self.assertEqual(lines, ["5", "5"])

    def test_annotations_without_the_op_list(self):
        self.worse("a,b:c%")
        os.remove(self.root / "nets/a,b:c%.json")
        places = [place for _, place, _ in
                  annotations_of(self.actions("base.json", "new.json", code=1))]
        self.assertEqual([(place["file"], place["line"]) for place in places],
                         [("nets/a,b:c%.json", "1")] * 2)
        for side in ("base", "new"):  # a result of an op list of the library names no file
            self.run_in(BINARY, "analyze", "@softmax", "-f", "csv", "-o", f"{side}.json")
        document = json.loads((self.root / "new.json").read_text(encoding="utf-8"))
        self.assertNotIn("source", document)
        document["plans"]["auto"]["total"] += 1
        (self.root / "new.json").write_text(json.dumps(document), encoding="utf-8")
        found = list(annotations_of(self.actions("base.json", "new.json", code=1)))
        self.assertEqual(list(found[0][1]), ["title"])

    def test_paths_are_those_of_the_repository(self):
        self.worse()
        (self.root / "base.json").rename(self.root / "tmp/base.json")
        absolute = self.root / "nets/mlp.json"
        self.run_in(BINARY, "analyze", absolute, "-f", "csv", "-o", "tmp/new.json",
                    GITHUB_ACTIONS="true")
        run = subprocess.run([BINARY, "compare", "base.json", "new.json"], cwd=self.root / "tmp",
                             capture_output=True, text=True, check=False,
                             env={**os.environ, "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": "",
                                  "GITHUB_WORKSPACE": str(self.root)})
        places = {(place["file"], place["line"]) for _, place, _ in annotations_of(run.stdout)}
        self.assertEqual(places, {("nets/mlp.json", "4")})

    def test_summary_of_the_step(self):
        self.worse()
        summary = self.root / "summary.md"
        summary.write_text("before\n", encoding="utf-8")
        self.actions("base.json", "new.json", code=1)
        text = summary.read_text(encoding="utf-8")
        self.assertTrue(text.startswith("before\n### fusecalc compare: failed: 2 worse; passed: 5"))
        self.assertIn("| **worse** | mlp | explicit |", text)
        # Who asks for another format gets that alone.
        self.assertIn("findings", json.loads(self.actions("base.json", "new.json", "-f", "json",
                                                          code=1)))
        self.assertEqual(summary.read_text(encoding="utf-8"), text)
        # The verdict counts where the summary cannot be written.
        run = self.run_in(BINARY, "compare", "base.json", "new.json", code=1, GITHUB_ACTIONS="1",
                          GITHUB_STEP_SUMMARY=str(self.root))
        self.assertIn("cannot append the summary of the step", run.stderr)
        self.assertIn("::error", run.stdout)
        outside = self.run_in(BINARY, "compare", "base.json", "new.json", "-f", "table", code=1)
        self.assertNotIn("::", outside.stdout)

    def test_junit_keeps_the_rules_of_its_schema(self):
        names = ["<net> & \"co\"", "esc\u001b[2J", "tail\n]]>", "\u202eleft\ufffe"]
        ops = [{"name": name, "op": "exp", "inputs": ["x" if i == 0 else f"t{i - 1}"],
                "output": f"t{i}"} for i, name in enumerate(names)]
        self.worse(ops=ops)
        document = json.loads((self.root / "new.json").read_text(encoding="utf-8"))
        del document["plans"]["compiler"]
        document["plans"]["auto"].update(read=None, write=None, total=None)
        (self.root / "new.json").write_text(json.dumps(document), encoding="utf-8")
        for options, code in ((), 1), (("--allow-missing", "--tolerance", "bytes=900%"), 0):
            self.run_in(BINARY, "compare", "base.json", "new.json", "-f", "csv", "-o", "gate.xml",
                        *options, code=code)
            text = (self.root / "gate.xml").read_text(encoding="utf-8")
            self.assertNotRegex(text, "[^\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\x7f-\x9f]")
            suites = xml.etree.ElementTree.fromstring(text.encode())
            self.assertEqual(list(junit_faults(suites)), [])
            for element in (suites, *suites):
                cases = list(element.iter("testcase"))
                self.assertEqual(int(element.get("tests")), len(cases))
                self.assertEqual(int(element.get("failures")),
                                 sum(case.find("failure") is not None for case in cases))
                self.assertEqual(int(element.get("failures")) > 0, code == 1)
            skipped = suites.findall(".//skipped")
            self.assertEqual(len(skipped), 0 if code else 1)
            self.assertEqual(int(suites[0].get("skipped")), len(skipped))

    def test_benchmark_entries(self):
        self.worse()
        for command, count in ((("analyze", "nets/mlp.json"), 12),
                               (("compare", "base.json", "new.json", "--no-fail"), 6)):
            shown = json.loads(self.run_in(BINARY, *command, "-f", "benchmark").stdout)
            self.run_in(BINARY, *command, "-f", "csv", "-o", "new.benchmark.json")
            self.assertEqual(json.loads((self.root / "new.benchmark.json").read_text("utf-8")), shown)
            self.assertEqual(len(shown), count)
            self.assertEqual(len({entry["name"] for entry in shown}), count)
            for entry in shown:
                self.assertLessEqual({"name", "unit", "value"}, set(entry))
                self.assertLessEqual(set(entry), {"name", "unit", "value", "range", "extra"})
                self.assertIn(entry["unit"], ("bytes", "us"))
                self.assertIsInstance(entry["value"], (int, float))
            # 1000 elements of 4 bytes, read and written once by each of two kernels.
            explicit = next(entry for entry in shown if entry["name"] == "mlp: explicit: bytes")
            self.assertEqual((explicit["value"], explicit["unit"]), (16000, "bytes"))
        sizes = self.root / "sizes.json"
        sizes.write_text('[{"name": "a", "input_size": 10, "output_size": 20}]', encoding="utf-8")
        shown = json.loads(self.run_in(BINARY, "analyze", sizes, "-f", "benchmark").stdout)
        self.assertEqual([(entry["name"], entry["value"]) for entry in shown],
                         [("sizes: unfused: bytes", 60), ("sizes: auto: bytes", 60)])

    def test_the_action_describes_what_its_scripts_read(self):
        action = yaml.safe_load((SOURCE / "action.yml").read_text(encoding="utf-8"))
        self.assertEqual(action["runs"]["using"], "composite")
        used = set()
        for step in action["runs"]["steps"]:
            self.assertEqual(step["shell"], "bash")
            script = SOURCE / re.fullmatch(r'"\$GITHUB_ACTION_PATH/(.*)"', step["run"])[1]
            self.assertTrue(os.access(script, os.X_OK), script)
            text = script.read_text(encoding="utf-8")
            for variable, value in step["env"].items():
                used.add(re.fullmatch(r"\$\{\{ inputs\.(.*) \}\}", value)[1])
                self.assertRegex(text, rf"\$\{{?{variable}\b")
        self.assertEqual(used, set(action["inputs"]))
        gate = (SOURCE / "ci/gate").read_text(encoding="utf-8")
        for name, output in action["outputs"].items():
            self.assertTrue(output["description"])
            self.assertEqual(output["value"], f"${{{{ steps.gate.outputs.{name} }}}}")
            self.assertIn(f'echo "{name}=', gate)
        for entry in action["inputs"].values():
            self.assertTrue(entry["description"])
            self.assertTrue(entry.get("required") or isinstance(entry["default"], str))

    def test_the_guide_uses_the_action_as_it_is(self):
        page = (SOURCE / "docs/comparing.md").read_text(encoding="utf-8")
        workflow = next(filter(None, (yaml.safe_load(block) for block in re.findall(
            r"^```yaml run\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "jobs:" in block)))
        checkout, use = workflow["jobs"]["traffic"]["steps"]
        self.assertTrue(checkout["with"]["submodules"])
        self.assertTrue(use["uses"].startswith("./"))  # a folder of the checkout
        inputs = yaml.safe_load((SOURCE / "action.yml").read_text(encoding="utf-8"))["inputs"]
        self.assertLessEqual(set(use["with"]), set(inputs))
        self.assertLessEqual({name for name, entry in inputs.items() if entry.get("required")},
                             set(use["with"]))

    def gate(self, code=0, **inputs):
        defaults = {name.upper().replace("-", "_"): entry.get("default", "") for name, entry in
                    yaml.safe_load((SOURCE / "action.yml").read_text("utf-8"))["inputs"].items()}
        outputs = self.root / "outputs"
        run = self.run_in(SOURCE / "ci/gate", code=code, RUNNER_TEMP=str(self.root / "tmp"),
                          GITHUB_ACTIONS="true", GITHUB_OUTPUT=str(outputs),
                          GITHUB_WORKSPACE=str(self.root), **{**defaults, **inputs})
        named = dict(line.split("=", 1) for line in outputs.read_text("utf-8").splitlines()
                     ) if outputs.exists() else {}
        return run, named

    def test_the_action_gates(self):
        (self.root / "baseline/nets").mkdir()
        for name in ("mlp", "other net"):
            self.write_list(name)
            self.analyze(name, f"baseline/nets/{name}.json")
        run, outputs = self.gate(OP_LISTS="nets/*.json")
        self.assertIn("passed: 12 same", run.stdout)
        self.assertEqual(set(outputs), {"junit", "report", "benchmark"})
        for path in outputs.values():
            self.assertTrue(pathlib.Path(path).exists(), path)
        self.write_list("mlp", fuse=False)
        run, _ = self.gate(code=1, OP_LISTS="nets/mlp.json\nnets/other*", RESULTS="second")
        self.assertEqual([place["line"] for _, place, _ in annotations_of(run.stdout)], ["4", "4"])
        self.gate(OP_LISTS="nets/*.json", RESULTS="third", COMPARE_OPTIONS="--only-changed --strict",
                  TOLERANCE="explicit.bytes=1%\nbytes=100%", code=1)
        run, _ = self.gate(OP_LISTS="nets/*.json", RESULTS="fourth",
                           TOLERANCE="bytes=1%\nexplicit.bytes=100%")
        self.assertIn("2 within", run.stdout)

    def test_the_action_refuses_what_it_cannot_do(self):
        run, _ = self.gate(code=2, OP_LISTS="nets/*.json")
        self.assertEqual(run.stderr, "fusecalc: op-lists: no file matches nets/*.json\n")
        self.write_list()
        run, _ = self.gate(code=2, OP_LISTS="nets/*.json", BASELINE="gone")
        self.assertEqual(run.stderr, "fusecalc: baseline: gone is no folder\n")
        run, _ = self.gate(code=2, OP_LISTS="nets/*.json", RESULTS="nets")
        self.assertIn("results: nets is there already", run.stderr)
        self.assertEqual(len(list((self.root / "nets").iterdir())), 1)
        (self.root / "nets/mlp.onnx").write_text("no model")
        run, _ = self.gate(code=2, OP_LISTS="nets/*")
        self.assertEqual(run.stderr, "fusecalc: op-lists: nets/mlp.json and nets/mlp.onnx would both "
                         "be nets/mlp.json in fusecalc-results; rename one\n")
        run, _ = self.gate(code=2, OP_LISTS=f"../{self.root.name}/nets/mlp.json")
        self.assertIn(f"the result of ../{self.root.name}/nets/mlp.json would lie outside "
                      "fusecalc-results", run.stderr)
        self.assertFalse((self.root / "fusecalc-results").exists())

    def test_the_template_for_gitlab(self):
        document = yaml.safe_load((SOURCE / "ci/gitlab.yml").read_text(encoding="utf-8"))
        job = document[".fusecalc"]
        (self.root / "baseline/nets").mkdir()
        self.write_list()
        self.analyze("mlp", "baseline/nets/mlp.json")
        variables = {**job["variables"], "FUSECALC_OP_LISTS": "nets/*.json"}
        script = "set -e\n" + "\n".join(job["script"])
        run = self.run_in("bash", "-c", script, **variables)
        self.assertIn("passed: 6 same", run.stdout)
        self.assertTrue((self.root / job["artifacts"]["reports"]["junit"]).exists())
        for path in job["artifacts"]["paths"]:
            self.assertTrue((self.root / path).exists(), path)
        self.write_list(fuse=False)
        self.run_in("bash", "-c", script, code=1, **variables)
        self.run_in("bash", "-c", script, **{**variables, "FUSECALC_TOLERANCE": "bytes=100%"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
