"""Carries out a Dockerfile without a container engine: each stage is a folder, and paths of the image lead into it."""

import fnmatch
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

IMAGE_FOLDERS = ("/app", "/venv")  # what the Dockerfile makes; all else is the base image's


@dataclass
class Stage:
    """One stage while it is built; at the end, what the image says of itself."""

    root: Path
    environment: dict[str, str]
    folder: str = "/"
    user: str = ""
    command: list[str] = field(default_factory=list)
    healthcheck: list[str] = field(default_factory=list)

    def inside(self, text: str) -> str:
        """The same text with paths of the image as paths of this machine."""
        return re.sub(rf"(?<![\w.])({'|'.join(IMAGE_FOLDERS)})\b", rf"{self.root}\1", text)


def build(dockerfile: Path, folder: Path, python: str) -> Stage:
    """Build the last stage below `folder`; `python` is the base image's."""
    stages: dict[str, Stage] = {}
    stage = Stage(folder, {})
    for word, rest in _instructions(dockerfile):
        if word == "FROM":
            root = folder / f"stage-{len(stages)}"
            programs = root / "bin"
            programs.mkdir(parents=True)
            (programs / "python").symlink_to(python)
            stage = Stage(root, {"PATH": f"{programs}:/usr/bin:/bin"})
            stages[rest.partition(" AS ")[2] or "last"] = stage
        elif word == "WORKDIR":
            stage.folder = rest
            Path(stage.inside(rest)).mkdir(parents=True, exist_ok=True)
        elif word == "ENV":
            for name, value in re.findall(r"(\w+)=(\S+)", rest):
                stage.environment[name] = stage.inside(value).replace("$PATH", stage.environment["PATH"])
        elif word == "COPY":
            *sources, target = rest.split()
            if sources[0].startswith("--from="):
                source = stages[sources.pop(0).removeprefix("--from=")]
                shutil.copytree(source.inside(sources[0]), stage.inside(target), symlinks=True)
            else:
                _copy_context(dockerfile.parent, sources, Path(stage.inside(stage.folder)))
        elif word == "RUN":
            run(stage, ["sh", "-euc", stage.inside(rest)])
        elif word == "USER":
            stage.user = rest
        elif word == "CMD":
            stage.command = json.loads(rest)
        elif word == "HEALTHCHECK":
            stage.healthcheck = json.loads(rest[rest.index("CMD ") + 4 :])
        else:
            assert word == "EXPOSE", f"{word} cannot be carried out here"
    return stage


def run(stage: Stage, command: Sequence[str]) -> None:
    # pip's cache is this machine's own: the same packages are not loaded once more for each run.
    environment = {"HOME": os.environ["HOME"]} | stage.environment
    done = subprocess.run(
        command, cwd=stage.inside(stage.folder), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def _instructions(dockerfile: Path) -> list[tuple[str, str]]:
    text = "\n".join(line for line in dockerfile.read_text().splitlines() if not line.startswith("#"))
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines) if word]


def _copy_context(context: Path, sources: Sequence[str], target: Path) -> None:
    """Of the tracked and new files, as a fresh clone has them, what .dockerignore lets through."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=context,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    ignored = [line for line in (context / ".dockerignore").read_text().split("\n") if line and line[0] != "#"]
    for name in filter(None, listed):
        if sources != ["."] and name not in sources:
            continue
        if not any(_matches(name, pattern) for pattern in ignored) and (context / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(context / name, target / name)


def _matches(name: str, pattern: str) -> bool:
    """Whether a pattern of .dockerignore leaves out this file, or a folder that it is in."""
    paths = [name, *(str(parent) for parent in Path(name).parents if parent.name)]
    if pattern.startswith("**/"):
        return any(fnmatch.fnmatch(Path(path).name, pattern[3:]) for path in paths)
    return any(fnmatch.fnmatch(path, pattern) and path.count("/") == pattern.count("/") for path in paths)
