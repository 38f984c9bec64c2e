"""compose.yaml, the Kubernetes example and the Dockerfiles are valid by their schemas, and fit the service."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.fernet import Fernet

from tests.harness.processes import CHECKOUT
from tests.test_docs import OPERATORS

OPERATIONS = CHECKOUT / "docs/operations"
KUBERNETES = sorted((OPERATIONS / "kubernetes").glob("*.yaml"))
DOCKERFILES = [CHECKOUT / "Dockerfile", OPERATIONS / "pgbouncer/Dockerfile"]
COMPOSE = yaml.safe_load((CHECKOUT / "compose.yaml").read_text())
ROLES = {"web", "worker", "beat", "prepare"}
SETTINGS = {name for row in re.findall(r"^\| (`[A-Z_`, ]+`) \|", OPERATORS, re.M) for name in re.findall(r"\w+", row)}


def checked(program: str, *arguments: object) -> str:
    """What a program of this environment says; it has to be content."""
    command = [str(Path(sys.executable).with_name(program)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def resources() -> list[dict[str, Any]]:
    return [each for file in KUBERNETES for each in yaml.safe_load_all(file.read_text())]


def pods() -> list[dict[str, Any]]:
    return [each["spec"]["template"]["spec"] for each in resources() if each["kind"] in ("Deployment", "Job")]


def test_compose_is_valid_by_its_specification() -> None:
    checked("check-jsonschema", "--builtin-schema", "vendor.compose-spec", CHECKOUT / "compose.yaml")


@pytest.mark.parametrize("file", KUBERNETES, ids=lambda file: file.stem)
def test_kubernetes_takes_the_example(file: Path) -> None:
    assert "passed" in checked("kubernetes-validate", "--strict", file)


@pytest.mark.parametrize("file", DOCKERFILES, ids=["service", "pgbouncer"])
def test_hadolint_finds_nothing_in_the_dockerfiles(file: Path) -> None:
    checked("hadolint", file)


def test_the_image_carries_no_embedded_servers() -> None:
    carried = (CHECKOUT / "codservice/onebox/requirements.txt").read_text()
    wheels = re.findall(r"^([\w-]+)==", carried, re.M)
    assert len(wheels) == 2
    assert not any(wheel in (CHECKOUT / "requirements.txt").read_text() for wheel in wheels)
    assert "embedded" not in (CHECKOUT / "Dockerfile").read_text()


def test_compose_runs_every_role_of_the_one_image() -> None:
    ours = {name: each for name, each in COMPOSE["services"].items() if each.get("image") == "codservice"}
    commands = {name: each.get("command", ["python", "-m", "codservice.run.web"]) for name, each in ours.items()}
    assert {command[-1] for command in commands.values()} == {f"codservice.run.{role}" for role in ROLES}
    for each in ours.values():
        assert (each["read_only"], each["cap_drop"], each["init"]) == (True, ["ALL"], True)


def test_only_the_proxy_can_be_reached_from_outside() -> None:
    assert [name for name, each in COMPOSE["services"].items() if "ports" in each] == ["proxy"]
    for name in ("database", "pgbouncer", "redis"):
        assert COMPOSE["services"][name]["networks"] == ["inside"]
    assert COMPOSE["networks"]["inside"] == {"internal": True}


def test_what_compose_and_kubernetes_set_is_a_setting() -> None:
    given = {
        name
        for each in COMPOSE["services"].values()
        if each.get("image") == "codservice"
        for name in each["environment"]
    }
    given = {name.removesuffix("_FILE") for name in given}
    for each in resources():
        given |= set(each.get("data", {})) | set(each.get("stringData", {}))
    # The second URL is what migrations get as DATABASE_URL.
    assert given - {"DIRECT_DATABASE_URL"} <= SETTINGS
    assert {"SECRET_KEY", "ENCRYPTION_KEYS", "DATABASE_URL", "REDIS_URL", "ALLOWED_HOSTS", "TRUSTED_PROXIES"} <= given


def test_pods_run_as_another_user_and_write_nowhere() -> None:
    assert len(pods()) == 4
    for pod in pods():
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container.get("command", ["codservice.run.web"])[-1].removeprefix("codservice.run.") in ROLES


def test_the_secrets_of_compose_are_made_once_and_kept(tmp_path: Path) -> None:
    def make() -> dict[str, str]:
        subprocess.run(["sh", OPERATIONS / "compose/make-secrets.sh"], cwd=tmp_path, check=True)
        return {file.name: file.read_text() for file in (tmp_path / "secrets").iterdir()}

    secrets = make()

    assert make() == secrets
    assert {Path(each["file"]).name for each in COMPOSE["secrets"].values()} <= set(secrets)
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert Fernet(secrets["encryption_keys"])
    assert len(secrets["secret_key"]) >= 50
    assert secrets["database_password"] in secrets["database_url"]
    assert secrets["database_password"] in secrets["pgbouncer_users"]
    assert secrets["redis_password"] in secrets["redis_url"]
    assert f"requirepass {secrets['redis_password']}" in secrets["redis_config"]
