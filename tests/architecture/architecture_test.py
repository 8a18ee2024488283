#!/usr/bin/env python3
"""Holds the source tree against the rules of rules.py, and the rules against made-up trees.

    architecture_test.py BINARY SOURCE_FOLDER
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import rules

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])


def op_names():
    """The names of all ops, as the program tells them."""
    run = subprocess.run([BINARY, "ops", "--format", "json"],
                         capture_output=True, text=True, check=True)
    return [op["op"] for op in json.loads(run.stdout)["ops"]]


class SourceTree(unittest.TestCase):
    def none(self, faults):
        faults = list(faults)
        self.assertEqual(faults, [], "\n" + "\n".join(faults))

    def test_includes_follow_the_order_of_folders(self):
        self.none(rules.includes_point_back(SOURCE))

    def test_report_only_formats(self):
        self.none(rules.report_searches(SOURCE))

    def test_cuda_headers_stay_in_src_cuda(self):
        self.none(rules.vendor_headers_leak(SOURCE))

    def test_no_op_name_is_text_after_reading(self):
        self.none(rules.op_names_are_compared(SOURCE, op_names()))

    def test_bytes_are_counted_in_src_traffic(self):
        self.none(rules.bytes_are_counted_elsewhere(SOURCE))

    def test_types_have_names_of_their_own(self):
        self.none(rules.types_share_a_name(SOURCE))

    def test_inputs_and_results_have_names_of_their_own(self):
        self.none(rules.names_occur_twice(SOURCE))

    def test_headers_to_precompile_are_there(self):
        build = (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8")
        headers = re.findall(r"<(\w+/\w+\.hpp)>", build)
        self.assertTrue(headers)
        self.none(header for header in headers if not (SOURCE / "src" / header).is_file())


class Rules(unittest.TestCase):
    """Each rule sees a fault where there is one, and none where there is none."""

    def sees(self, expected, faults_of, **files):
        """Checks the places of the faults of a tree: "src/a/b.cpp" is written src__a__b_cpp."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                path = root / ".".join(name.replace("__", "/").rsplit("_", 1))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text + "\n", encoding="utf-8")
            self.assertEqual([fault.split(": ")[0] for fault in faults_of(root)], expected)

    def test_includes(self):
        rule = rules.includes_point_back
        self.sees([], rule,
                  src__plan__a_hpp='#include <a>\n#include "core/b.hpp"\n#include "plan/c.hpp"',
                  src__main_cpp='#include "cli/a.hpp"\n#include "version.hpp"',
                  src__cuda__a_cpp='#include "backend/a.hpp"\n#include "cuda/b.hpp"')
        self.sees(["src/core/a.cpp:2"], rule, src__core__a_cpp='\n#include "graph/b.hpp"')
        self.sees(["src/cli/a.cpp:1"], rule, src__cli__a_cpp='#include "cuda/b.hpp"')
        self.sees(["src/main.cpp:1"], rule, src__main_cpp='#include "cuda/b.hpp"')
        self.sees(["src/cuda/a.hpp:1"], rule, src__cuda__a_hpp='#include "cli/b.hpp"')
        self.sees(["src/plan/a.hpp:1"], rule, src__plan__a_hpp='#include "c.hpp"')
        self.sees(["src/helpers/a.hpp:1"], rule, src__helpers__a_hpp="#include <vector>")

    def test_report(self):
        rule = rules.report_searches
        self.sees([], rule, src__report__a_cpp='#include "core/b.hpp"',
                  src__cli__a_cpp='#include "planner/plans.hpp"')
        for name in ("planner/plans.hpp", "codegen/generate.hpp", "plan/legality.hpp",
                     "plan/paths.hpp"):
            self.sees(["src/report/a.cpp:1"], rule, src__report__a_cpp=f'#include "{name}"')
        self.sees(["src/report/a.cpp:2"], rule, src__report__a_cpp="\nTrafficCounter counter;")
        # Through headers that are no formatting themselves.
        self.sees([], rule, src__report__a_hpp='#include "analysis/b.hpp"',
                  src__analysis__b_hpp='#include "plan/c.hpp"',
                  src__analysis__b_cpp='#include "planner/plans.hpp"')
        self.sees(["src/report/a.hpp:2"], rule, src__report__a_hpp='\n#include "analysis/b.hpp"',
                  src__analysis__b_hpp='#include "measure/c.hpp"\n#include "analysis/b.hpp"',
                  src__measure__c_hpp='#include "codegen/generated.hpp"')

    def test_vendor_headers(self):
        rule = rules.vendor_headers_leak
        self.sees([], rule, src__cuda__a_cpp="#include <cupti.h>")
        for name in ("cuda.h", "cuda_runtime.h", "nvrtc.h", "cupti.h", "cublasLt.h", "nvml.h"):
            self.sees(["src/measure/a.hpp:1"], rule, src__measure__a_hpp=f"#include <{name}>")

    def test_op_names(self):
        def rule(root):
            return rules.op_names_are_compared(root, ["softmax", "div"])
        self.sees([], rule, src__graph__a_cpp='if (name == "div") op_named(name);',
                  src__plan__a_cpp='// name == "div"\nprint("div");\nkind == "rows"')
        for line in ('if (name == "softmax")', 'if ("div" != op)', "row == op_named(name)",
                     'is(op, "softmax")', 'maker(id, 0, "div")', 'name.starts_with("div")'):
            self.sees(["src/codegen/a.cpp:1"], rule, src__codegen__a_cpp=line)

    def test_bytes(self):
        rule = rules.bytes_are_counted_elsewhere
        self.sees([], rule, src__traffic__a_cpp="Bytes b; b.read += 1;",
                  src__plan__a_cpp='// Bytes held\nwiden("Bytes");',
                  src__report__a_cpp="void cell(const Bytes& bytes);")
        self.sees(["src/codegen/a.cpp:1"], rule, src__codegen__a_cpp="Bytes moved;")
        self.sees(["src/report/a.cpp:1"], rule, src__report__a_cpp="b.write += n;")

    def test_types(self):
        rule = rules.types_share_a_name
        one, other = "namespace fusecalc {\nstruct Axis {", "namespace fusecalc {\nclass Axis : B {"
        own = "namespace fusecalc {\nnamespace {\nstruct Axis {\n};\n}  // namespace"
        self.sees([], rule, src__plan__a_cpp=one, src__plan__b_cpp=own, src__plan__c_cpp=own,
                  src__cuda__d_cpp="namespace fusecalc::cuda {\nstruct Axis {",
                  src__plan__e_hpp="namespace fusecalc {\nstruct Axis;")
        self.sees(["src/plan/b.hpp:2"], rule, src__plan__a_cpp=one, src__plan__b_hpp=other)
        self.sees(["tests/plan/b.cpp:2"], rule, src__plan__a_cpp=one, tests__plan__b_cpp=other)
        self.sees(["src/plan/b.cpp:7"], rule, src__plan__a_cpp=one,
                  src__plan__b_cpp=own + "\n\nstruct Axis {")

    def test_names(self):
        rule = rules.names_occur_twice
        self.sees([], rule, specs__oplists__a_json="", specs__results__h200__b_json="")
        self.sees(["specs/results/h200/a.json"], rule,
                  specs__oplists__a_json="", specs__results__h200__a_json="")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
