"""A Slurm cluster in a temporary folder: Debian's slurmctld, slurmd and munged as the current user.

    with Cluster(folder) as cluster:
        subprocess.run(["sinfo"], env=cluster.environment)
"""

import getpass
import os
import pathlib
import shutil
import socket
import subprocess
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "sinfo", "scancel")
SECONDS = 60


class Unavailable(Exception):
    """Why there can be no cluster here."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cluster:
    NODES = ("n1", "n2")

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.path = os.environ["PATH"] + ":/usr/sbin:/sbin"
        self.processes = []
        missing = [name for name in PROGRAMS if shutil.which(name, path=self.path) is None]
        if missing:
            raise Unavailable(f"no {', '.join(missing)} (Debian: slurm-wlm, munge)")

    @property
    def environment(self):
        return {**os.environ, "PATH": self.path, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self, name, *arguments):
        log = open(self.folder / f"{name}.out", "ab")
        self.processes.append(subprocess.Popen(
            [shutil.which(name, path=self.path), *arguments], stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, env=self.environment, cwd=self.folder))
        log.close()

    def ask(self, *words):
        run = subprocess.run(words, env=self.environment, capture_output=True, text=True)
        if run.returncode != 0:
            raise RuntimeError(f"{words}: {run.stderr}")
        return run.stdout

    def wait_for(self, what, condition):
        end = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > end or any(p.poll() is not None for p in self.processes):
                logs = "\n".join(f"--- {path.name}\n" + "\n".join(
                    path.read_text(errors="replace").splitlines()[-5:])
                    for path in sorted(self.folder.glob("*.out")))
                raise Unavailable(f"{what} does not run here\n{logs}")
            time.sleep(0.1)

    def configuration(self):
        controller, user, here = free_port(), getpass.getuser(), self.folder
        nodes = "\n".join(f"NodeName={node} NodeHostname={socket.gethostname().split('.')[0]} "
                          f"NodeAddr=127.0.0.1 Port={free_port()} CPUs=1" for node in self.NODES)
        return f"""ClusterName=test
SlurmctldHost={socket.gethostname().split('.')[0]}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={here}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={here}/state
SlurmdSpoolDir={here}/spool.%n
SlurmctldPidFile={here}/slurmctld.pid
SlurmdPidFile={here}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0,defer
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MinJobAge=600
{nodes}
PartitionName=all Nodes={','.join(self.NODES)} Default=YES State=UP
"""

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def begin(self):
        here = self.folder
        for name in ("state", *(f"spool.{node}" for node in self.NODES)):
            (here / name).mkdir()
        (here / "slurm.conf").write_text(self.configuration())
        (here / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        key = here / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        self.start("munged", "--foreground", "--force", f"--key-file={key}",
                   f"--socket={here}/munge.socket", f"--pid-file={here}/munge.pid",
                   f"--log-file={here}/munge.log", f"--seed-file={here}/munge.seed")
        self.wait_for("munged", (here / "munge.socket").exists)
        self.start("slurmctld", "-D", "-i")
        for node in self.NODES:
            self.start("slurmd", "-D", "-N", node)
        self.wait_for("slurmd", lambda: self.states().count("idle") == len(self.NODES))

    def states(self):
        """Of the nodes; none while the controller does not answer."""
        run = subprocess.run(["sinfo", "-h", "-N", "-o", "%t"], env=self.environment,
                             capture_output=True, text=True)
        return run.stdout.split()

    def unfinished(self, job):
        run = subprocess.run(["squeue", "-h", "-j", job, "-o", "%T"], env=self.environment,
                             capture_output=True, text=True)
        return run.stdout.split()

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
