#!/usr/bin/env python3
"""Runs every command of README.md and docs/, and compares the written output with the real one.

    docs_test.py BINARY SOURCE_FOLDER [--update]

The pages' fenced blocks say by their info strings what they are:
    console            "$ command" lines, each with its output on a terminal; all of a page run in
                       one folder, one after the other; a line "..." stands for any lines
    console gpu        commands for a machine with a GPU: here they must be understood (exit code 3)
    json NAME          the file NAME of that folder, which is in examples/, too; specs/...: lines of
                       that file of the source tree
    python NAME        lines of examples/NAME; a line "..." stands for any lines
    text SOURCE        messages that SOURCE holds, piece by piece
    yaml run           a workflow whose "run" steps are run (but for those that install)
    sh                 commands of the source tree: what they name must be there
    mermaid, text      a picture
--update replaces the console blocks' outputs with the real ones.
"""

import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```(.*)$")
END = "\x1e"


def blocks_of(lines):
    """(info, first line, last line) of each fenced block; the lines are those between the fences."""
    start, info = None, ""
    for number, line in enumerate(lines):
        match = FENCE.match(line)
        if match is None:
            continue
        if start is None:
            start, info = number + 1, match[1].strip()
        else:
            yield info, start, number
            start = None


class Shell:
    """A bash in a pseudoterminal, 100 columns wide, without colour."""

    def __init__(self, folder, path):
        self.master, slave = pty.openpty()
        subprocess.run(["stty", "raw", "-echo", "cols", "100"], stdin=slave, check=True)
        # In a pseudoterminal LeakSanitizer fails on libraries that doctor has loaded; the other
        # tests check for leaks.
        environment = {"ASAN_OPTIONS": "detect_leaks=0", "PATH": path, "HOME": folder,
                       "TERM": "xterm", "NO_COLOR": "1", "LC_ALL": "C.UTF-8",
                       "GITHUB_STEP_SUMMARY": f"{folder}/step-summary"}
        self.process = subprocess.Popen(["bash", "--norc"], cwd=folder, env=environment,
                                        stdin=subprocess.PIPE, stdout=slave, stderr=slave)
        os.close(slave)

    def run(self, command):
        """Its output and exit code."""
        # A subshell leads in, so that "echo $?" tells of the command before.
        script = f"(exit ${{rc:-0}})\n{command}\nrc=$?; printf '{END}%s{END}' $rc\n"
        self.process.stdin.write(script.encode())
        self.process.stdin.flush()
        text = b""
        while text.count(END.encode()) < 2:
            text += os.read(self.master, 65536)
        output, code, _ = text.decode().split(END)
        return output, int(code)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        os.close(self.master)


def commands_of(lines):
    """(command, its output's lines) of a console block; a command may go on after a backslash."""
    found = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found and found[-1][0].endswith("\\") and not found[-1][1]:
            found[-1] = (found[-1][0] + "\n" + line, [])
        elif found:
            found[-1][1].append(line)
    return found


def matches(written, real):
    pattern = ""
    for line in written:
        pattern += r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line) + r"\n"
    return re.fullmatch(pattern, "".join(line + "\n" for line in real)) is not None


def string_literals(source):
    """The text of a C++ source with neighbouring string literals joined."""
    return re.sub(r'"\s*"', "", source).replace('\\"', '"')


class Page:
    def __init__(self, path, source, binary, update):
        self.path, self.source, self.update = path, source, update
        self.lines = path.read_text(encoding="utf-8").split("\n")
        self.faults = []
        self.ran = 0
        self.binary = binary

    def fault(self, number, message):
        self.faults.append(f"{self.path.relative_to(self.source)}:{number + 1}: {message}")

    def check(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(self.source / "specs", f"{folder}/specs")
            os.symlink(self.source / "examples/layer.pt2", f"{folder}/layer.pt2")
            shell = Shell(folder, f"{self.binary.parent}:{os.environ['PATH']}")
            replaced = []
            for info, start, end in blocks_of(self.lines):
                text = self.block(info, start, end, shell, pathlib.Path(folder))
                if text is not None:
                    replaced.append((start, end, text))
            shell.close()
        for start, end, text in reversed(replaced):
            self.lines[start:end] = text
        if self.update and replaced:
            self.path.write_text("\n".join(self.lines), encoding="utf-8")
        return self.faults

    def block(self, info, start, end, shell, folder):
        """Checks a block; returns its replacement if it is to be updated."""
        kind, _, rest = info.partition(" ")
        lines = self.lines[start:end]
        if info == "console":
            return self.console(lines, start, shell)
        if info == "console gpu":
            self.needs_gpu(lines, start, shell)
        elif kind == "json" and rest:
            self.json_file(rest, lines, start, folder)
        elif kind == "python" and rest:
            self.lines_of(self.source / "examples" / rest, lines, start)
        elif kind == "text" and rest:
            self.messages(rest, lines, start)
        elif info == "yaml run":
            self.workflow(lines, start, shell)
        elif info == "sh":
            for line in lines:
                program = line.split()[0] if line.strip() else "."
                if not (self.source / program).exists():
                    self.fault(start, f"{program} is not in the source tree")
        elif info not in ("mermaid", "text"):
            self.fault(start, f"a block of unknown kind, {info!r}")
        return None

    def console(self, lines, start, shell):
        updated = []
        for command, written in commands_of(lines):
            output, _ = shell.run(command)
            real = output.split("\n")[:-1] if output.endswith("\n") else output.split("\n")
            real = [line.rstrip() for line in real] if output else []
            self.ran += 1
            same = matches([line.rstrip() for line in written], real)
            if not same and not self.update:
                self.fault(start, f"$ {command}\n--- written\n" + "\n".join(written) +
                           "\n--- real\n" + "\n".join(real))
            updated += ["$ " + command] + (written if same else real)
        return updated

    def needs_gpu(self, lines, start, shell):
        for command, _ in commands_of(lines):
            output, code = shell.run(command + " >/dev/null")
            self.ran += 1
            if code not in (0, 3):
                self.fault(start, f"$ {command}: exit code {code}: {output}")

    def json_file(self, name, lines, start, folder):
        text = "\n".join(lines) + "\n"
        if not name.startswith("specs/"):
            target = folder / name
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, encoding="utf-8")
            self.example(target.name, text, start)
            return
        self.lines_of(self.source / name, lines, start)

    def lines_of(self, path, lines, start):
        whole = [line.strip() for line in path.read_text(encoding="utf-8").split("\n")]
        if not matches(["..."] + [line.strip() for line in lines] + ["..."], whole):
            self.fault(start, f"these lines are not in {path.relative_to(self.source)}")

    def example(self, name, text, start):
        """Whoever reads the guide finds its files, and need not type them."""
        path = self.source / "examples" / name
        if self.update:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            self.fault(start, f"examples/{name} is not this text (--update writes it)")

    def messages(self, name, lines, start):
        source = string_literals((self.source / name).read_text(encoding="utf-8"))
        for line in lines:
            for piece in re.split(r"; |: ", line.removeprefix("fusecalc: ")):
                if piece and piece != "..." and piece not in source:
                    self.fault(start, f"{name} says nothing like {piece!r}")

    def workflow(self, lines, start, shell):
        steps, indent = [], None
        for line in lines:
            single = re.match(r"^ *(?:- )?run: (?!\|)(.*)$", line)
            if indent is not None and (not line.strip() or
                                       len(line) - len(line.lstrip()) > indent):
                steps[-1] += line.strip() + "\n"
                continue
            indent = None
            if single:
                steps.append(single[1])
            elif re.match(r"^ *(?:- )?run: \|", line):
                indent = len(line) - len(line.lstrip())
                steps.append("")
        for step in steps:
            if "install" in step:
                continue
            output, code = shell.run(f"( set -e\n{step}\n)")
            self.ran += 1
            gpu = "fusecalc measure" in step or "measured" in step
            if code not in ((0, 2, 3) if gpu else (0,)):
                self.fault(start, f"{step.strip()}: exit code {code}: {output}")


def main(binary, source, update):
    pages = [source / "README.md", *sorted((source / "docs").glob("*.md"))]
    faults, ran = [], 0
    for path in pages:
        page = Page(path, source, binary, update)
        faults += page.check()
        ran += page.ran
    print("\n\n".join(faults) or f"{len(pages)} pages, {ran} commands: as written")
    return 1 if faults else 0


if __name__ == "__main__":
    arguments = [word for word in sys.argv[1:] if word != "--update"]
    wanted = "--update" in sys.argv or bool(os.environ.get("FUSECALC_UPDATE_GOLDEN"))
    sys.exit(main(pathlib.Path(arguments[0]).resolve(), pathlib.Path(arguments[1]).resolve(),
                  wanted))
