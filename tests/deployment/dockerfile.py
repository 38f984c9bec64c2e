"""Carries out a Dockerfile without a container engine: each stage is a folder, into which the image's paths lead."""

import fnmatch
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

IMAGE_FOLDERS = ("/app", "/venv")  # made by the Dockerfile; all else belongs to the base image


@dataclass
class Stage:
    """One stage while it is built, and at the end the settings of the image."""

    root: Path
    environment: dict[str, str]
    folder: str = "/"
    user: str = ""
    command: list[str] = field(default_factory=list)
    is_of_the_system: bool = False  # would change this machine's system, so nothing of it is carried out

    def inside(self, text: str) -> str:
        """The text with paths of the image replaced by paths of this machine."""
        return re.sub(rf"(?<![\w.])({'|'.join(IMAGE_FOLDERS)})\b", rf"{self.root}\1", text)


def build(dockerfile: Path, folder: Path, python: str) -> Stage:
    """Build all stages below `folder` and return the last one. `python` stands in for the base image's."""
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
            stage.is_of_the_system = rest.endswith(" AS system")
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
                if source.is_of_the_system:
                    continue
                assert sources[0].startswith(IMAGE_FOLDERS)
                shutil.copytree(source.inside(sources[0]), stage.inside(target), symlinks=True)
            elif not stage.is_of_the_system:
                _copy_context(dockerfile.parent, sources, Path(stage.inside(stage.folder)))
        elif word == "RUN":
            if not stage.is_of_the_system and not rest.startswith("apt-get "):
                run(stage, ["sh", "-euc", stage.inside(rest)])
        elif word == "USER":
            stage.user = rest
        elif word == "CMD":
            stage.command = json.loads(rest)
        else:
            assert word in ("EXPOSE", "ARG"), f"{word} cannot be carried out here"
    return stage


def run(stage: Stage, command: Sequence[str]) -> None:
    # With this machine's HOME, for pip's cache: packages are not downloaded again for each run.
    environment = {"HOME": os.environ["HOME"]} | stage.environment
    done = subprocess.run(
        command, cwd=stage.inside(stage.folder), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def _instructions(dockerfile: Path) -> list[tuple[str, str]]:
    text = "\n".join(line for line in dockerfile.read_text().splitlines() if not line.startswith("#"))
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines) if word]


def in_context(context: Path) -> list[str]:
    """The tracked and new files that .dockerignore lets through."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=context,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    return [name for name in listed if name and lets_through(context, name) and (context / name).exists()]


def lets_through(context: Path, name: str) -> bool:
    """Whether .dockerignore lets a file into the image. The last matching pattern decides."""
    is_in = True
    for line in (context / ".dockerignore").read_text().splitlines():
        if line and line[0] != "#" and _matches(name, line.removeprefix("!")):
            is_in = line[0] == "!"
    return is_in


def _copy_context(context: Path, sources: Sequence[str], target: Path) -> None:
    for name in in_context(context):
        if sources == ["."] or name in sources:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(context / name, target / name)


def _matches(name: str, pattern: str) -> bool:
    """Whether a pattern of .dockerignore matches this file or a folder that it is in."""
    paths = [name, *(str(parent) for parent in Path(name).parents if parent.name)]
    if pattern.startswith("**/"):
        return any(fnmatch.fnmatch(Path(path).name, pattern[3:]) for path in paths)
    return any(fnmatch.fnmatch(path, pattern) and path.count("/") == pattern.count("/") for path in paths)
