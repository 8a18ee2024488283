#!/usr/bin/env python3
"""Sweeps on a real Slurm cluster, which this test starts and ends. Exit code 77 and a line where no
cluster can run.

    slurm_cluster_test.py BINARY
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import slurm_cluster

BINARY = ""
CLUSTER = None

# 200 points.
SWEEP = ("ops.json", "--dim", "N=7..700+7", "--dim", "M=8,16")
OPS = {"name": "pair", "dims": {"N": 7, "M": 8}, "dtype": "f32",
       "tensors": {"x": {"shape": ["M", "N"]}, "r": {"shape": ["M", "N"]}},
       "ops": [{"name": "sum", "op": "add", "inputs": ["x", "r"], "output": "h"},
               {"name": "act", "op": "softmax", "inputs": ["h"], "output": "y"}]}


class Sweep(unittest.TestCase):
    def setUp(self):
        # A path that the shell and sbatch would take apart.
        self.temporary = tempfile.TemporaryDirectory(prefix="a sweep's 100%d ")
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        (self.folder / "ops.json").write_text(json.dumps(OPS))
        self.environment = CLUSTER.environment

    def fusecalc(self, *arguments, code=0):
        run = subprocess.run([BINARY, "sweep", *arguments], cwd=self.folder, env=self.environment,
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, code, run.stderr)
        return run

    def submit(self, *arguments):
        job = self.fusecalc(*arguments).stdout.strip()
        self.assertRegex(job, r"^\d+$")
        return job

    def wait(self, job, most=0):
        """Until at most `most` tasks are left."""
        end = time.monotonic() + 300
        while len(left := CLUSTER.unfinished(job)) > most:
            self.assertLess(time.monotonic(), end, f"{left}: {self.logs()}")
            time.sleep(0.2)

    def logs(self):
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*/slurm/*/*.log")))

    def results(self, name):
        return {path.name: path.read_bytes() for path in (self.folder / name / "points").iterdir()}

    def test_one_process_two_and_an_array_give_the_same_bytes(self):
        documents = [self.fusecalc(*SWEEP, "--dir", f"local{jobs}", "--jobs", jobs).stdout
                     for jobs in ("1", "2")]
        self.wait(self.submit(*SWEEP, "--dir", "array", "--slurm", "--chunk", "40"))
        documents.append(self.fusecalc("--collect", "array").stdout)
        self.assertEqual(len(json.loads(documents[0])["points"]), 200)
        self.assertEqual(documents[1], documents[0])
        self.assertEqual(documents[2], documents[0], self.logs())
        self.assertEqual(self.results("local1"), self.results("array"))
        script = (self.folder / "array/slurm/1/script.sh").read_text()
        self.assertIn("#SBATCH --array=0-4\n", script)

    def test_what_a_lost_task_and_a_drained_node_leave_is_named_and_run_again(self):
        job = self.submit(*SWEEP, "--dir", "d", "--slurm=--hold --exclusive", "--chunk", "20")
        CLUSTER.ask("scancel", f"{job}_8")
        CLUSTER.ask("scontrol", "release", job)
        self.wait(job, 6)
        node = CLUSTER.NODES[1]
        CLUSTER.ask("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
        try:
            self.wait(job)
        finally:
            CLUSTER.ask("scontrol", "update", f"NodeName={node}", "State=RESUME")
        lost = self.fusecalc("--collect", "d", code=1)
        # Task 8 has the points 160 to 179: N = 7 * 81 to 7 * 90, each with two values of M.
        self.assertIn("fusecalc: missing: pair N=567 M=8 h200\n", lost.stderr)
        self.assertIn("fusecalc: missing: pair N=630 M=16 h200\n", lost.stderr)
        self.assertEqual(lost.stderr.count("missing: "), 20)
        self.assertIn("of 200 points, 20 missing", lost.stderr)
        self.assertEqual(json.loads(lost.stdout)["counts"],
                         {"done": 180, "failed": 0, "missing": 20})
        again = self.submit("--collect", "d", "--slurm=--comment=again")
        self.assertEqual((self.folder / "d/slurm/2/chunks").read_text(), "160-179\n")
        self.wait(again)
        whole = self.fusecalc("--collect", "d").stdout
        self.assertEqual(whole, self.fusecalc(*SWEEP, "--dir", "undisturbed").stdout)
        self.assertIn("nothing is submitted", self.fusecalc("--collect", "d", "--slurm").stderr)

    def test_a_point_that_fails_does_not_lose_the_others_of_its_task(self):
        # An extent of 2^62 does not fit into bytes.
        dims = ("--dim", "N=7,4611686018427387904,14", "--slurm")
        self.wait(self.submit("ops.json", "--dir", "f", *dims))
        failed = self.fusecalc("--collect", "f", code=1)
        self.assertIn("of 3 points, 1 failed, the first pair N=4611686018427387904 h200: ops.json: ",
                      failed.stderr)
        states = [point["state"] for point in json.loads(failed.stdout)["points"]]
        self.assertEqual(states, ["done", "failed", "done"])

    def test_an_op_list_that_changed_is_not_mixed_with_the_old_one(self):
        job = self.submit(*SWEEP, "--dir", "c", "--slurm=--hold")
        (self.folder / "ops.json").write_text(json.dumps({**OPS, "dtype": "f64"}))
        CLUSTER.ask("scontrol", "release", job)
        self.wait(job)
        self.assertIn("ops.json: has changed since the sweep began; begin it again", self.logs())
        self.assertIn("of 200 points, 200 missing", self.fusecalc("--collect", "c", code=1).stderr)

    def test_what_sbatch_refuses_is_said_and_the_script_stays(self):
        refused = self.fusecalc(*SWEEP, "--dir", "r", "--slurm=-p nowhere", code=3)
        self.assertRegex(refused.stderr, r"^fusecalc: sweep: sbatch refuses r/slurm/1/script.sh: "
                                         r"sbatch: error: .*partition.*\n$")
        self.assertTrue((self.folder / "r/slurm/1/script.sh").is_file())


def main():
    global CLUSTER
    # A short path: a socket's has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as folder:
        try:
            with slurm_cluster.Cluster(folder) as CLUSTER:
                return unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful()
        except slurm_cluster.Unavailable as why:
            print(f"skipped: no Slurm cluster here: {why}")
            sys.exit(77)


if __name__ == "__main__":
    BINARY = str(pathlib.Path(sys.argv[1]).resolve())
    sys.exit(0 if main() else 1)
