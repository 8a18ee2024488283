"""What `fusecalc profile` says of programs, beside Nsight Compute and the programs alone.

usage: check.py [--without-ncu] [--at-once N] FUSECALC FOLDER [NAME...]

Runs each program alone, profiled, and under ncu, and prints a line for each: launches and bytes read
of both, whether the result is the same, what counting took, and how many of the bytes are attributed
to ops of its model. FOLDER gets the documents. Needs a GPU, PyTorch, transformers, nvcc and ncu; the
program of two GPUs is left out where there is one. What nothing counts, exports and programs alone, runs at once;
with --at-once programs of PyTorch are profiled so many at a time, without times. Models in FOLDER are not exported.
"""
import argparse
import concurrent.futures
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
    ("llama graph", ["models.py", "llama", "graph"], "llama", False),
    ("resnet eager", ["models.py", "resnet", "eager"], "resnet", True),
    ("triton", ["triton_add.py"], None, True),
    ("small", ["small.py"], None, False),
    ("small of 50 us", ["small.py", "26214400"], None, False),
    ("workers fork", ["workers.py", "fork"], None, False),
    ("workers spawn", ["workers.py", "spawn"], None, False),
    ("workers processes", ["workers.py", "processes"], None, False),
    ("two gpus", ["two_gpus.py", "processes"], None, False),
    ("two gpus one process", ["two_gpus.py", "one"], None, False),
    ("torch profiler", ["torch_profiler.py"], None, False),
    ("streams", ["streams"], None, True),
    ("faults none", ["faults", "none"], None, False),
    ("faults crash", ["faults", "crash"], None, False),
    ("faults exit", ["faults", "exit"], None, False),
    ("faults kill", ["faults", "kill"], None, False),
    ("faults bad-launch", ["faults", "bad-launch"], None, False),
    ("faults reset", ["faults", "reset"], None, False),
    ("faults illegal", ["faults", "illegal"], None, False),
    ("faults fork", ["faults", "fork"], None, False),
)
# Profilers around each other: {fusecalc}, {ncu} and {program} are commands.
ATTACHED = (
    ("profile in profile", "{fusecalc} {fusecalc} {program}"),
    ("profile in ncu", "{ncu} {fusecalc} {program}"),
    ("ncu in profile", "{fusecalc} {ncu} {program}"),
    ("two at once", "{fusecalc} {program} & {fusecalc} {program}"),
)
NCU = ["ncu", "--target-processes", "all", "--metrics", "dram__bytes_read.sum"]


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
    return sorted(line for line in text.splitlines() if line.startswith(("sum", "parent", "rank")))


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


def check(binary, folder, name, words, model, beside, alone, in_turn=False):
    command = command_of(words, folder)
    if in_turn:
        command[1:1] = [str(HERE / "in_turn.py"), str(folder / "lock")]
    stem = name.replace(" ", "-")
    document = folder / f"{stem}.json"
    options = ["--op-list", str(folder / f"{model}.pt2")] if model else []
    options += ["--no-times"] if in_turn else []
    code, _, errors, seconds = run([binary, "profile", *options, "-o", str(document), "-f", "csv", "--",
                                    *command])
    (folder / f"{stem}.stderr.txt").write_text(errors)
    alone_code, alone_out, alone_errors, alone_s = alone.result()
    same = result_lines(alone_out + alone_errors) == result_lines(errors)
    last = errors.strip().splitlines()[-1] if errors.strip() else ""
    if not document.exists():
        return f"{name}: alone {alone_code}, profiled {code} in {seconds:.1f} s: {last}"
    found = json.loads(document.read_text())
    totals = found["totals"]
    launches = [launch for process in found["processes"] for launch in process["launches"]]
    kernels = [launch for launch in launches if launch["kind"] not in ("copy", "fill")]
    uncounted = [what for process in found["processes"] for what in process["uncounted"]]
    overhead = [process["overhead"] for process in found["processes"]]
    counting = sum(row["counting_s"] for row in overhead)
    opening = sum(row["opening_s"] for row in overhead)
    nodes = sum(launch.get("nodes", 0) for launch in launches)
    busy = sum(launch["time_us"] or 0 for launch in launches) / 1e6
    text = (f"{name}: alone {alone_code}, profiled {code} in {seconds:.1f} s (alone {alone_s:.1f}), same "
            f"result: {same}; {totals['counted']} of {totals['launches']} counted, read "
            f"{totals['dram_read']}, written {totals['dram_write']}, counting {counting:.2f} s, of it "
            f"{opening:.2f} s to begin, kernels take {busy * 1000:.2f} ms")
    if busy and totals["counted"]:
        each = (counting - opening) / totals["counted"]
        text += (f"; {1e6 * each:.0f} us a counted launch, {1e6 * busy / totals['counted']:.0f} us alone: "
                 f"{(counting - opening) / busy:.2f} times")
    if nodes:
        text += f"; {nodes} nodes of graphs timed"
    if uncounted:
        text += f"; uncounted: {json.dumps(uncounted)[:200]}"
    if "alignment" in found:
        aligned = found["alignment"]
        text += (f"; attributed {100 * aligned['attributed'] / max(1, aligned['moved']):.2f} %, of it layouts "
                 f"{100 * aligned['layout_bytes'] / max(1, aligned['moved']):.2f} %, "
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


def check_attached(binary, folder):
    program = " ".join(command_of(["faults", "bad-launch"], folder))
    words = {"fusecalc": f"{binary} profile --no-times -f csv --", "ncu": " ".join(NCU), "program": program}
    for name, command in ATTACHED:
        script = command.format(**words) + "; code=$?; wait; exit $code"
        code, output, errors, seconds = run(["bash", "-c", script], limit=60)
        said = [line for line in (output + errors).splitlines() if line.startswith(("fusecalc:", "==ERROR=="))]
        counted = sum(line.count(",kernel,") for line in output.splitlines())
        print(f"{name}: exit code {code} in {seconds:.1f} s; {counted} kernels in results; {said}", flush=True)


def main(arguments):
    beside, names, folder = not arguments.without_ncu, arguments.names, arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    binary = str(arguments.fusecalc.resolve())
    gpus = run(["nvidia-smi", "-L"])[1].count("GPU ")
    chosen = [row for row in PROGRAMS
              if (not names or row[0] in names) and (gpus > 1 or not row[0].startswith("two gpus"))]
    commands = [command_of(words, folder) for _, words, _, _ in chosen]
    exports = {model: [sys.executable, str(HERE / words[0]), *words[1:], str(folder / f"{model}.pt2")]
               for model, words in MODELS.items()
               if model in {row[2] for row in chosen} and not (folder / f"{model}.pt2").exists()}
    pool = concurrent.futures.ThreadPoolExecutor(8)
    exported = {model: pool.submit(run, command) for model, command in exports.items()}
    rows = [(row, pool.submit(run, command)) for row, command in zip(chosen, commands)]

    def check_row(row, in_turn):
        (name, words, model, ncu_too), alone = row
        if model in exported and exported[model].result()[0] != 0:
            print(f"{exports[model]}: {exported[model].result()[2].strip()[-300:]}", flush=True)
            model = None
        print(check(binary, folder, name, words, model, ncu_too and beside, alone, in_turn), flush=True)

    at_once = [row for row in rows if arguments.at_once > 1 and row[0][1][0].endswith(".py")]
    with concurrent.futures.ThreadPoolExecutor(arguments.at_once) as checks:
        list(checks.map(check_row, at_once, [True] * len(at_once)))
    concurrent.futures.wait([*exported.values(), *(alone for _, alone in rows)])
    for row in rows:
        if row not in at_once:
            check_row(row, False)
    if not names or "attached" in names:
        check_attached(binary, folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("--without-ncu", action="store_true")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("fusecalc", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    main(parser.parse_args())
