"""The rules that the source tree keeps. Each takes the folder of a tree and yields its faults, one
line each: "file:line: what is wrong"."""

import collections
import re

# Includes point to an earlier folder of this list, or to the same one. graph comes before json: a
# graph does not know which format it was written in.
ORDER = ("core", "graph", "json", "input", "device", "plan", "traffic", "predict", "planner",
         "analysis", "codegen", "reference", "backend", "measure", "profile", "compare", "sweep", "report",
         "cli")
# Modules are loaded at run time: nothing includes them, and they include folders up to this one.
MODULES = {"cuda": "backend"}
# Files of src itself, which may include every folder but the modules.
TOP = "main.cpp"

# What only formats results neither searches nor generates.
FORMATTING = "report"
SEARCHING_HEADERS = ("planner/", "codegen/", "plan/legality", "plan/paths", "plan/phases")
SEARCHING_WORDS = re.compile(r"\b(TrafficCounter|PhaseFinder)\b")

VENDOR_HEADER = re.compile(r"(cuda|nvrtc|cupti|cublas|nvml|nvperf)\w*\.h|cuda/.*", re.I)

# Where an op's name is still text.
NAMES_ARE_TEXT = ("graph", "input")
# Before bytes are counted, and where code is made or run: no analytic bytes are made there.
WITHOUT_BYTES = ("graph", "json", "input", "device", "plan", "codegen", "reference")
# Where bytes are added up: a kernel's, a plan's from its kernels, and those that counters saw.
ADDS_BYTES = ("traffic", "analysis", "backend", "measure", "profile", "cuda")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# Made by the build; they have no folder.
GENERATED = ("version.hpp",)

Line = collections.namedtuple("Line", "folder place text")


def lines_of(root, suffixes=(".cpp", ".hpp")):
    """Every line of src without its comment, and the folder that it belongs to."""
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in suffixes:
            continue
        parts = path.relative_to(root / "src").parts
        folder = parts[0] if len(parts) > 1 else TOP
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            place = f"{path.relative_to(root)}:{number}"
            yield Line(folder, place, re.sub(r"(^|\s)//.*", "", text))


def includes_of(root):
    """(line, whether in quotes, what is included)"""
    for line in lines_of(root):
        match = INCLUDE.match(line.text)
        if match:
            yield line, match[1] == '"', match[2]


def headers_reached(root):
    """A function from a header to the shortest path of includes to each header that it reaches, the
    first of them itself."""
    included = collections.defaultdict(list)
    for line, quoted, name in includes_of(root):
        if quoted:
            included["/".join(line.place.rsplit(":", 1)[0].split("/")[1:])].append(name)

    def reached(name):
        paths = {name: (name,)}
        queue = collections.deque(paths)
        while queue:
            header = queue.popleft()
            for other in included[header]:
                if other not in paths:
                    paths[other] = (*paths[header], other)
                    queue.append(other)
        return paths.values()
    return reached


def places(folder):
    """Which folders a folder may include."""
    if folder == TOP:
        return ORDER
    return ORDER[:ORDER.index(MODULES.get(folder, folder)) + 1] + (folder,)


def includes_point_back(root):
    for line, quoted, name in includes_of(root):
        if line.folder not in (TOP, *MODULES, *ORDER):
            yield f"{line.place}: the folder {line.folder} has no place in ORDER"
        elif quoted and name not in GENERATED:
            if "/" not in name:
                yield f'{line.place}: "{name}" is included without its folder'
            elif name.split("/")[0] not in places(line.folder):
                yield f"{line.place}: {line.folder} comes before {name}"


def report_searches(root):
    """FORMATTING includes no header that searches, be it through others, and names none of its
    types."""
    reached = headers_reached(root)
    for line in lines_of(root):
        if line.folder != FORMATTING:
            continue
        if SEARCHING_WORDS.search(line.text):
            yield f"{line.place}: {FORMATTING} only formats: {line.text.strip()}"
        match = INCLUDE.match(line.text)
        if not match:
            continue
        for path in reached(match[2]):
            if path[-1].startswith(SEARCHING_HEADERS):
                yield f"{line.place}: {FORMATTING} only formats, but reaches {' -> '.join(path)}"


def vendor_headers_leak(root):
    for line, quoted, name in includes_of(root):
        if not quoted and line.folder not in MODULES and VENDOR_HEADER.fullmatch(name):
            yield f"{line.place}: <{name}> belongs in src/cuda"


def op_names_are_compared(root, names):
    quoted = '"(?:' + "|".join(map(re.escape, names)) + ')"(?:sv)?'
    compared = re.compile(rf"[!=]=\s*{quoted}"            # name == "softmax"
                          rf"|{quoted}\s*[!=]="            # "softmax" == name
                          r"|\bop_named\s*\("              # row == op_named(name)
                          rf"|\b(?:is|is_op|has_name|maker|find|starts_with|ends_with|compare)"
                          rf"\((?:[^()]*,\s*)?{quoted}")   # is(op, "softmax")
    for line in lines_of(root):
        if line.folder not in NAMES_ARE_TEXT and compared.search(line.text):
            yield f"{line.place}: compares an op's name as text: {line.text.strip()}"


def bytes_are_counted_elsewhere(root):
    analytic = re.compile(r"\b(Bytes|KernelTraffic)\b")
    added = re.compile(r"\.(read|write)\s*\+=")
    for line in lines_of(root):
        text = re.sub(r'"(\\.|[^"\\])*"', '""', line.text)
        if line.folder in WITHOUT_BYTES and analytic.search(text):
            yield f"{line.place}: bytes are counted in src/traffic alone: {text.strip()}"
        elif line.folder not in ADDS_BYTES and added.search(text):
            yield f"{line.place}: adds bytes up: {text.strip()}"


def types_share_a_name(root):
    """Two types of one name in one namespace: a program that links both has undefined behaviour, and
    neither compiler nor linker tells. A namespace without a name belongs to its file."""
    opened = re.compile(r"namespace\s*([\w:]*)\s*\{$")
    closed = re.compile(r"\}\s*// namespace\b")
    defined = re.compile(r"(?:struct|class|enum(?: class)?|union)\s+(?:alignas\([^)]*\)\s*)?"
                         r"(\w+)\b(?!\s*::)[^;()]*\{")
    where = collections.defaultdict(set)
    for folder in ("src", "tests"):
        for path in sorted((root / folder).rglob("*.[ch]pp")):
            file = str(path.relative_to(root))
            spaces = []
            for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if match := opened.match(text):
                    spaces.append(match[1] or file)
                elif closed.match(text) and spaces:
                    spaces.pop()
                elif match := defined.match(text):
                    where["::".join(spaces), match[1]].add((file, f"{file}:{number}"))
    for (_, name), found in sorted(where.items()):
        if len({file for file, _ in found}) > 1:
            places = sorted(place for _, place in found)
            yield f"{places[1]}: {name} is also the name of a type at {places[0]}"


def names_occur_twice(root):
    """Inputs and results of specs/results, and the library: no two files of one name."""
    where = collections.defaultdict(list)
    for folder in ("specs/results", "specs/oplists"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file():
                where[path.name].append(str(path.relative_to(root)))
    for found in where.values():
        if len(found) > 1:
            yield f"{found[0]}: has the name of {', '.join(found[1:])}"
