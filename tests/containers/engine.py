"""Container engines: this machine's Docker, or one that is made for the run and leaves nothing running."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
BASES = {  # the base images of compose.yaml and the Dockerfiles, by the root folder that stands in for them
    "python": "python:3.11-slim-bookworm",
    "debian": "debian:trixie-slim",
    "postgres": "postgres:18",
    "valkey": "valkey/valkey:9",
    "caddy": "caddy:2",
}


class Failed(Exception):
    """A command ended with a status other than 0. The message has its last lines."""


class Engine:
    """This machine's Docker."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.work.mkdir(parents=True, exist_ok=True)

    def command(self, arguments: Sequence[str], folder: Path) -> list[str]:
        return list(arguments)

    def beside(self, arguments: Sequence[str]) -> list[str]:
        """The command for running a program of this machine where the containers' ports are."""
        return list(arguments)

    def run(self, *arguments: str, folder: Path | None = None, may_fail: bool = False) -> str:
        """Run a command with the engine in `folder`, and return both its outputs. Raises Failed."""
        status, said = self.status(*arguments, folder=folder)
        if status and not may_fail:
            raise Failed(f"{' '.join(arguments)[:200]}: exit status {status}\n{said[-3000:]}")
        return said

    def status(self, *arguments: str, folder: Path | None = None) -> tuple[int, str]:
        """Run a command with the engine, and return its exit status and both outputs."""
        folder = folder or self.work
        done = subprocess.run(
            self.command(arguments, folder), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        return done.returncode, done.stdout.decode(errors="replace")

    @contextmanager
    def way_out(self) -> Iterator[None]:
        """Let builds reach package registries while the block runs."""
        yield


class OwnEngine(Engine):
    """An engine from Debian's packages, with mounts and a network of its own. Needs root."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._folder = folder
        (self.work / "home").mkdir(exist_ok=True)
        (folder / "state").mkdir(exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def keeper(self) -> int:
        return int((self.work / "keeper.pid").read_text())

    @property
    def dockerd(self) -> int:
        return int((self.work / "dockerd.pid").read_text())

    def command(self, arguments: Sequence[str], folder: Path) -> list[str]:
        inside = ["nsenter", "--target", str(self.keeper), "--mount", "--net", "env", "-i", f"HOME={self.work}/home"]
        inside += ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", f"FOLDER={folder}"]
        inside += [f"DOCKER_HOST=unix://{self.work}/docker.sock", "sh", "-c", 'cd "$FOLDER" && exec "$@"', "sh"]
        return [*inside, *arguments]

    def beside(self, arguments: Sequence[str]) -> list[str]:
        return ["nsenter", "--target", str(self.keeper), "--net", *arguments]

    def start(self) -> None:
        for name in ("keeper.pid", "dockerd.pid", "docker.sock"):
            (self.work / name).unlink(missing_ok=True)
        log = (self._folder / "dockerd.log").open("wb")
        self._process = subprocess.Popen(
            [HERE / "run-engine.sh", self._folder / "engine", self.work, self._folder / "state"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        self.wait()

    def wait(self) -> None:
        """Wait until the engine answers."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):  # no keeper yet
                if self.status("docker", "info")[0] == 0:
                    return
            time.sleep(0.2)
        raise Failed(f"dockerd does not answer: see {self._folder}/dockerd.log")

    def stop(self) -> None:
        """End the engine and all that is left of it, such as shims. Their mounts and network go with them."""
        assert self._process is not None
        ours = os.readlink(f"/proc/{self.keeper}/ns/mnt")
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(60)
        for _ in range(20):
            left = [int(name) for name in os.listdir("/proc") if name.isdigit() and _namespace(name) == ours]
            if not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.5)

    def make_images(self) -> None:
        """Make stand-ins for the base images, under the official names."""
        machine = b"".join(path.read_bytes() for path in sorted(Path("/usr/local/share/ca-certificates").glob("*.crt")))
        for name, tag in BASES.items():
            if self.status("docker", "image", "inspect", tag)[0] == 0:
                continue
            target = f"root-{name}" if (HERE / "base" / name).exists() else tag
            with (self._folder / "roots" / f"{name}.tar").open("rb") as root:
                command = self.command(["docker", "import", "-", target], self.work)
                subprocess.run(command, stdin=root, stdout=subprocess.DEVNULL, check=True)
            if target == tag:
                continue
            context = self.work / f"base-{name}"
            shutil.rmtree(context, ignore_errors=True)
            shutil.copytree(HERE / "base" / name, context)
            (context / "machine.crt").write_bytes(machine)
            self.run("docker", "build", "--quiet", "--tag", tag, ".", folder=context)

    @contextmanager
    def way_out(self) -> Iterator[None]:
        process = subprocess.Popen(
            ["slirp4netns", "--configure", "--mtu=1400", "--disable-host-loopback", str(self.keeper), "tap0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            time.sleep(1)
            yield
        finally:
            process.terminate()
            process.wait()


def _namespace(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


@contextmanager
def running_engine(folder: Path, tell) -> Iterator[Engine]:  # type: ignore[no-untyped-def]
    """This machine's Docker if it answers, otherwise an engine of our own, which ends with the block."""
    if shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0:
        yield Engine(folder)
        return
    missing = [name for name in ("mmdebstrap", "slirp4netns", "nsenter", "unshare") if not shutil.which(name)]
    if os.geteuid() != 0 or missing:
        sys.exit(
            f"No Docker answers; without one this needs root on Debian{', and ' if missing else ''}{' '.join(missing)}."
        )
    with tell("engine and base folders, of Debian's packages"), (folder / "engine.log").open("ab") as log:
        if subprocess.run([HERE / "engine.sh", folder], stdout=log, stderr=log, check=False).returncode:
            sys.exit(f"The engine could not be made: see {folder}/engine.log.")
    engine = OwnEngine(folder)
    try:
        with tell("dockerd"):
            engine.start()
        with tell("base images"):
            engine.make_images()
        yield engine
    finally:
        engine.stop()
