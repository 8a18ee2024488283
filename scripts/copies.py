"""How long a copy of so many bytes takes, by `fusecalc measure`."""
import bisect
import json
import pathlib
import subprocess
import tempfile

SIZES_MIB = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048)  # moved


def op_list(moved):
    return {"format": "fusecalc.ops/1", "dtype": "bf16", "tensors": {"x": {"shape": [moved // 4]}},
            "ops": [{"op": "copy", "inputs": ["x"], "output": "y"}]}


def copy_times(binary, cache):
    """A function from bytes, read and written, to microseconds: between sizes that were measured."""
    sizes = [mib << 20 for mib in SIZES_MIB]
    with tempfile.TemporaryDirectory() as folder:
        files = [str(pathlib.Path(folder) / f"{size}.json") for size in sizes]
        for file, size in zip(files, sizes):
            pathlib.Path(file).write_text(json.dumps(op_list(size)), encoding="utf-8")
        done = subprocess.run([binary, "measure", *files, "--plan", "auto", "--timing-only", "--cache",
                               cache, "--runs", "15", "--format", "json"],
                              stdout=subprocess.PIPE, text=True, check=True)
    plans = [result["plans"]["auto"] for result in json.loads(done.stdout)]
    found = [plan["measured_pipeline"] if cache == "pipeline" else plan["kernels"][0]["measured"]
             for plan in plans]
    times = [each["time_us"]["median"] for each in found]

    def microseconds(moved):
        if moved >= sizes[-1]:
            return times[-1] * moved / sizes[-1]
        at = max(1, bisect.bisect_right(sizes, moved))
        low, high = sizes[at - 1], sizes[at]
        return max(0.0, times[at - 1] + (times[at] - times[at - 1]) * (moved - low) / (high - low))

    return microseconds
