"""What `fusecalc profile` says of programs, beside Nsight Compute and the programs alone.

usage: check.py FUSECALC FOLDER [NAME...]

Runs each program alone, profiled, and under ncu, and prints a line for each: launches and bytes read
of both, whether the result is the same, what counting took, and how many of the bytes are attributed
to ops of its model. FOLDER gets the documents. Needs a GPU, PyTorch, transformers, nvcc and ncu.
"""
import csv
import io
import json
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
MODELS = {"block": ["block.py", "export"], "llama": ["models.py", "llama", "export"],
          "resnet": ["models.py", "resnet", "export"]}
# Name, program, model, whether ncu runs it.
PROGRAMS = (
    ("block eager", ["block.py", "eager"], "block", True),
    ("block compiled", ["block.py", "compiled"], "block", True),
    ("block graph", ["block.py", "graph"], "block", False),
    ("block train", ["block.py", "train"], None, True),
    ("llama eager", ["models.py", "llama", "eager"], "llama", True),
    ("llama compiled", ["models.py", "llama", "compiled"], "llama", True),
    ("resnet eager", ["models.py", "resnet", "eager"], "resnet", True),
    ("triton", ["triton_add.py"], None, True),
    ("small", ["small.py"], None, False),
    ("workers fork", ["workers.py", "fork"], None, False),
    ("workers spawn", ["workers.py", "spawn"], None, False),
    ("streams", ["streams"], None, True),
    ("faults none", ["faults", "none"], None, False),
    ("faults crash", ["faults", "crash"], None, False),
    ("faults exit", ["faults", "exit"], None, False),
    ("faults kill", ["faults", "kill"], None, False),
    ("faults bad-launch", ["faults", "bad-launch"], None, False),
    ("faults reset", ["faults", "reset"], None, False),
    ("faults illegal", ["faults", "illegal"], None, False),
)


def run(command, limit=170, **more):
    begin = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, **more)
        return done.returncode, done.stdout, done.stderr, time.monotonic() - begin
    except subprocess.TimeoutExpired:
        return "hung", "", "", limit


def command_of(words, folder):
    if words[0].endswith(".py"):
        return [sys.executable, str(HERE / words[0]), *words[1:]]
    binary = folder / words[0]
    if not binary.exists():
        subprocess.run(["nvcc", "-O2", "-arch=native", "-o", binary, HERE / f"{words[0]}.cu"], check=True)
    return [str(binary), *words[1:]]


def result_lines(text):
    return [line for line in text.splitlines() if line.startswith(("sum", "parent", "rank"))]


def ncu(command, folder, name):
    """Kernels, and bytes read."""
    metrics = "dram__bytes_read.sum,dram__bytes_write.sum"
    code, output, errors, _ = run(["ncu", "--csv", "--page", "raw", "--cache-control", "none",
                                   "--clock-control", "none", "--target-processes", "all",
                                   "--print-units", "base", "--metrics", metrics, *command])
    (folder / f"{name}.ncu.csv").write_text(output)
    lines = output[output.find('"ID"'):] if '"ID"' in output else ""
    rows = [row for row in csv.DictReader(io.StringIO(lines)) if (row.get("ID") or "").isdigit()]
    if not rows:
        return None, None, f"ncu: exit code {code}: {errors.strip()[-200:]}"
    read = sum(float(row["dram__bytes_read.sum"].replace(",", "")) for row in rows)
    return len(rows), read, ""


def check(binary, folder, name, words, model, beside):
    command = command_of(words, folder)
    stem = name.replace(" ", "-")
    alone_code, alone_out, _, alone_s = run(command)
    document = folder / f"{stem}.json"
    options = ["--op-list", str(folder / f"{model}.pt2")] if model else []
    code, _, errors, seconds = run([binary, "profile", *options, "-o", str(document), "-f", "csv", "--",
                                    *command])
    (folder / f"{stem}.stderr.txt").write_text(errors)
    same = result_lines(alone_out) == result_lines(errors)
    last = errors.strip().splitlines()[-1] if errors.strip() else ""
    if not document.exists():
        return f"{name}: alone {alone_code}, profiled {code} in {seconds:.1f} s: {last}"
    found = json.loads(document.read_text())
    totals = found["totals"]
    launches = [launch for process in found["processes"] for launch in process["launches"]]
    kernels = [launch for launch in launches if launch["kind"] not in ("copy", "fill")]
    uncounted = [what for process in found["processes"] for what in process["uncounted"]]
    counting = sum(process["overhead"]["counting_s"] for process in found["processes"])
    busy = sum(launch["time_us"] or 0 for launch in launches) / 1e6
    text = (f"{name}: alone {alone_code}, profiled {code} in {seconds:.1f} s (alone {alone_s:.1f}), same "
            f"result: {same}; {totals['counted']} of {totals['launches']} counted, read "
            f"{totals['dram_read']}, written {totals['dram_write']}, counting {counting:.2f} s, kernels "
            f"take {busy * 1000:.2f} ms")
    if uncounted:
        text += f"; uncounted: {json.dumps(uncounted)[:200]}"
    if "alignment" in found:
        aligned = found["alignment"]
        text += (f"; attributed {100 * aligned['attributed'] / max(1, aligned['moved']):.2f} %, "
                 f"{len(aligned['unmatched'])} unmatched, {len(aligned['missing'])} missing; "
                 f"{aligned['verdict']}")
    if beside:
        count, read, why = ncu(command, folder, stem)
        ours = sum(launch["dram_read"] or 0 for launch in kernels)
        text += (f"; ncu {count} launches ({len(kernels)} kernels here), read {100 * (ours / read - 1):+.3f} %"
                 if count else f"; {why}")
    if code != alone_code:
        text += f"; last line: {last}"
    return text


def main(binary, folder, *names):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    binary = str(pathlib.Path(binary).resolve())
    for model, words in MODELS.items():
        if not names or any(model in name for name in names):
            code, _, errors, _ = run([sys.executable, str(HERE / words[0]), *words[1:],
                                      str(folder / f"{model}.pt2")])
            if code != 0:
                print(f"export of {model}: {errors.strip()[-300:]}", flush=True)
    for name, words, model, beside in PROGRAMS:
        if names and name not in names:
            continue
        if model and not (folder / f"{model}.pt2").exists():
            model = None
        print(check(binary, folder, name, words, model, beside), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
