"""Checks the contraction kernels and times them. Arguments name functions of the modules below;
without any, all that is for no other tool is run."""

import sys

import torch

import contract_checks
import contract_times
import heads
from checks import report

ALL = ("check_plain", "check_sm80", "check_skinny", "check_skinny_90", "check_vector", "time_plain",
       "time_hot", "time_sm80", "time_skinny", "time_vector", "splade", "loss")

if __name__ == "__main__":
    torch.manual_seed(1)
    functions = vars(contract_checks) | vars(contract_times) | vars(heads)
    for what in sys.argv[1:] or ALL:
        functions[what]()
    sys.exit(report.failures > 0)
