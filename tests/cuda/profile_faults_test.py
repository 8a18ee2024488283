"""What `fusecalc profile` says where a program's counters cannot be read: one line, the right exit
code, and the program's own result. The driver and CUPTI are fakes, which fail as asked.

usage: profile_faults_test.py FUSECALC PROGRAM LIBCUDA LIBCUPTI
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BINARY, PROGRAM, LIBCUDA, LIBCUPTI = map(pathlib.Path, sys.argv[1:5])
NOT_PERMITTED = "35"      # CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
HARDWARE_BUSY = "26"      # CUPTI_ERROR_HARDWARE_BUSY
TWO_SUBSCRIBERS = "39"    # CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
NOT_COMPATIBLE = "34"     # CUPTI_ERROR_CUDA_COMPILER_NOT_COMPATIBLE


class Faults(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for library in (LIBCUDA, LIBCUPTI):
            shutil.copy(library, self.folder / library.name)

    def profile(self, *options, program=(PROGRAM,), **variables):
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self.folder), **variables}
        for name in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"):
            if name not in variables:
                environment.pop(name, None)
        return subprocess.run([BINARY, "profile", *options, "--", *program], capture_output=True, text=True,
                              env=environment, timeout=60)

    def refused(self, words, **variables):
        done = self.profile(**variables)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stdout, "")
        lines = done.stderr.splitlines()
        self.assertEqual(lines[0], "launched 3")
        self.assertEqual(len(lines), 2, done.stderr)
        self.assertTrue(lines[1].startswith("fusecalc: " + words), lines[1])
        return lines[1]

    def test_without_a_fault_every_launch_is_counted(self):
        done = self.profile("--no-times", "-f", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["totals"]["launches"], 3)
        self.assertEqual(found["totals"]["counted"], 3)
        launches = found["processes"][0]["launches"]
        self.assertEqual([launch["dram_read"] for launch in launches], [1000] * 3)
        self.assertEqual([launch["grid"] for launch in launches], [[1, 1, 1], [2, 1, 1], [3, 1, 1]])

    def test_a_cupti_that_keeps_few_ranges_of_a_pass(self):
        done = self.profile("--no-times", "-f", "json", program=[PROGRAM, "100"], FAKE_KEPT="3")
        found = json.loads(done.stdout)
        self.assertEqual(found["totals"]["counted"], 100)
        self.assertEqual(found["totals"]["dram_read"], 100 * 1000)

    def counted_before_kill(self, launches, how):
        done = self.profile("--no-times", "-f", "json", program=[PROGRAM, str(launches), how])
        self.assertEqual(done.returncode, 1, done.stderr)
        line = (r"fusecalc: the program ended with signal 9 \(Killed\); (\d+) of its " + str(launches) +
                " launches were counted before")
        self.assertRegex(done.stderr.splitlines()[-1], line)
        return int(re.fullmatch(line, done.stderr.splitlines()[-1]).group(1))

    def test_a_killed_program_loses_the_launches_of_its_last_pass_only(self):
        # Passes have 1,024 launches, 128 where little memory is free. One ends early where the machine is busy.
        self.assertGreaterEqual(self.counted_before_kill(2500, "kill"), 2048)

    def test_a_program_that_has_waited_for_its_results_loses_nothing(self):
        self.assertEqual(self.counted_before_kill(31, "synchronize"), 31)

    def test_a_program_that_has_idled_loses_nothing(self):
        self.assertEqual(self.counted_before_kill(31, "idle"), 31)

    def test_an_interrupted_program_leaves_what_was_counted(self):
        done = self.profile("--no-times", "-f", "json", program=[PROGRAM, "31", "interrupt"])
        self.assertEqual(done.returncode, 130, done.stderr)
        self.assertEqual(json.loads(done.stdout)["totals"]["counted"], 31)
        self.assertEqual(done.stderr.splitlines()[-1], "fusecalc: interrupted; 31 of 31 launches were counted before")

    def test_a_program_that_launches_nothing(self):
        done = self.profile(program=[PROGRAM, "0"])
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("launched nothing that was to be counted on a GPU", done.stderr.splitlines()[-1])

    def test_workers_that_idle_let_others_count(self):
        done = self.profile("--no-times", "-f", "json", program=[PROGRAM, "31", "wait", "4"])
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["totals"]["counted"], 4 * 31)
        self.assertEqual([process["uncounted"] for process in found["processes"]], [[]] * 4)

    def test_a_program_that_forks_while_it_is_counted(self):
        done = self.profile("--no-times", "-f", "json", program=[PROGRAM, "31", "fork"])
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(len(found["processes"]), 1)
        self.assertEqual(found["totals"]["counted"], 31 + 30)

    def test_no_permission(self):
        line = self.refused("the driver does not permit reading the GPU's counters",
                            FAKE_CUPTI="cuptiRangeProfilerEnable", FAKE_ERROR=NOT_PERMITTED)
        self.assertIn("CAP_SYS_ADMIN", line)

    def test_counters_held_by_another_tool(self):
        for function in ("cuptiRangeProfilerEnable", "cuptiRangeProfilerStart"):
            self.refused("another profiler is using the GPU's counters", FAKE_CUPTI=function,
                         FAKE_ERROR=HARDWARE_BUSY)

    def test_another_profiler_inside_the_program(self):
        self.refused("another profiler is using the GPU's counters", FAKE_CUPTI="cuptiSubscribe",
                     FAKE_ERROR=TWO_SUBSCRIBERS)

    def test_a_driver_older_than_cupti(self):
        self.refused("the NVIDIA driver is too old for this CUPTI", FAKE_CUPTI="cuptiProfilerDeviceSupported",
                     FAKE_ERROR=NOT_COMPATIBLE)

    def test_a_cupti_of_another_version(self):
        # Of the right name, without the functions.
        shutil.copy(LIBCUDA, self.folder / LIBCUPTI.name)
        self.refused("CUPTI lacks the range profiler")

    def test_another_profiler_around_it(self):
        done = self.profile(CUDA_INJECTION64_PATH="/opt/other.so")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stderr.splitlines(),
                         ["fusecalc: another profiler is attached (CUDA_INJECTION64_PATH is /opt/other.so); run "
                          "fusecalc profile without it"])

    def test_fusecalc_profile_inside_another(self):
        done = self.profile(program=[BINARY, "profile", "--", PROGRAM])
        self.assertEqual(done.returncode, 2)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 2, done.stderr)
        self.assertTrue(lines[0].startswith("fusecalc: another profiler is attached"), lines[0])
        self.assertEqual(lines[1], "fusecalc: " + str(BINARY) + " (exit code 3) never used CUDA: there is nothing "
                         "to profile")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
