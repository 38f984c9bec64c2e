"""compose.yaml, the Kubernetes example and the Dockerfiles follow their schemas, and fit the service."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import yaml
from cryptography.fernet import Fernet

from codservice.data_folder import Layout
from codservice.files import sheets
from codservice.onebox.service import processes
from codservice.run.web import Web
from codservice.uploads import arrival
from tests.deployment.compose import COMPOSE
from tests.docs.as_written import OPERATORS
from tests.harness.processes import CHECKOUT
from webhooks import addresses

from . import dockerfile

OPERATIONS = CHECKOUT / "docs/operations"
KUBERNETES = sorted(
    set((OPERATIONS / "kubernetes").rglob("*.yaml")) - set((OPERATIONS / "kubernetes").rglob("kustomization.yaml"))
)
DOCKERFILES = [CHECKOUT / "Dockerfile", OPERATIONS / "pgbouncer/Dockerfile"]
ROLES = {"web", "worker", "beat", "prepare"}
SETTINGS = {name for row in re.findall(r"^\| (`[A-Z_`, ]+`) \|", OPERATORS, re.M) for name in re.findall(r"\w+", row)}


def checked(program: str, *arguments: object) -> str:
    """The output of a program of this environment, which must succeed."""
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


@pytest.mark.parametrize("file", KUBERNETES, ids=lambda file: f"{file.parent.name}-{file.stem}")
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
    commands = {
        name: each.get("command", ["python", "-m", "codservice.run.web"])
        for name, each in ours.items()
        if "profiles" not in each
    }
    assert {command[-1] for command in commands.values()} == {f"codservice.run.{role}" for role in ROLES}
    for each in ours.values():
        assert (each["read_only"], each["cap_drop"], each["init"]) == (True, ["ALL"], True)


def test_one_service_builds_the_image_that_all_take() -> None:
    building = [name for name, each in COMPOSE["services"].items() if each["image"] == "codservice" and "build" in each]
    assert building == ["web"]


def test_every_part_that_stays_says_whether_it_is_well() -> None:
    """A disabled check makes `up --wait` fail, and one that asks a name may ask an address where nobody listens."""
    assert "HEALTHCHECK" not in (CHECKOUT / "Dockerfile").read_text()
    for name, each in COMPOSE["services"].items():
        if name == "migrate" or "profiles" in each:
            assert "healthcheck" not in each
            continue
        check = each["healthcheck"]
        assert check["test"][0] != "NONE", name
        assert "disable" not in check, name
        assert "localhost" not in str(check["test"]), name


def test_no_container_may_more_than_it_needs_or_fills_the_disk() -> None:
    added = {}
    for name, each in COMPOSE["services"].items():
        assert each["cap_drop"] == ["ALL"], name
        assert each["security_opt"] == ["no-new-privileges:true"], name
        assert each["read_only"] is True, name
        assert each["logging"]["options"] == {"max-size": "10m", "max-file": "5"}, name
        added |= {name: each["cap_add"]} if "cap_add" in each else {}
    writes = ["DAC_OVERRIDE"]  # to write to a folder that belongs to the operator
    assert added == {"proxy": ["NET_BIND_SERVICE"], "backup": writes, "restore": writes}


def test_any_setting_may_stand_in_the_one_file() -> None:
    ours = [each for each in COMPOSE["services"].values() if each["image"] == "codservice"]
    assert all(each["env_file"] == [".env"] for each in ours)
    # Settings that compose.yaml names itself do not come from .env.
    assert not {"API_RATE_LIMIT", "METRICS_TOKEN", "SENTRY_DSN", "EMAIL_URL"} & set(ours[0]["environment"])
    assert COMPOSE["services"]["web"]["deploy"] == {"replicas": "${WEB_REPLICAS:-2}"}
    assert COMPOSE["services"]["worker"]["deploy"] == {"replicas": "${WORKER_REPLICAS:-1}"}


def test_backups_are_no_files_of_the_checkout() -> None:
    for name in ("backup", "restore"):
        (target,) = [each for each in COMPOSE["services"][name]["volumes"] if each.endswith(":/backups")]
        assert target == "${BACKUPS:-../codservice-backups}:/backups"
    assert not re.search(r"> \S*\.dump", OPERATORS)


BELONGS = {
    *("agents", "codservice", "docs", "image", "inventory", "orders", "templates", "webhooks"),
    *("CHANGELOG.md", "SECURITY.md", "manage.py", "requirements.txt"),
}
SUFFIXES = {
    *(
        ".py",
        ".sh",
        ".txt",
        ".html",
        ".css",
        ".js",
        ".svg",
        ".png",
        ".md",
        ".mo",
        ".csv",
        ".json",
        ".sql",
        ".yaml",
        ".yml",
    ),
    *(".ini", ".go", ".mjs", ".php", ".woff2", ".gz"),
}


def test_the_image_holds_what_belongs_in_it_and_nothing_that_lies_about() -> None:
    inside = dockerfile.in_context(CHECKOUT)

    assert {name.partition("/")[0] for name in inside} == BELONGS
    other = {name for name in inside if Path(name).suffix not in SUFFIXES}
    assert {Path(name).name for name in other} <= {"Caddyfile", "Dockerfile", "client.ts", "py.typed"}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "codservice.dump",
            "docs/codservice.dump",
            "docs/codservice.dump.part",
            "backups/a",
            "secrets/secret_key",
            ".env",
        ),
        *("docs/operations/compose/.env", "docs/operations/kubernetes/secret.yaml", "a.pem", "docs/a.key", "root.crt"),
        *("authorities/ours.pem", "secrets.env", "docs/secrets.env"),
    ],
)
def test_secrets_and_backups_get_into_neither_image_nor_repository(name: str) -> None:
    assert not dockerfile.lets_through(CHECKOUT, name)
    command = ["git", "check-ignore", "--quiet", "--no-index", name]
    assert subprocess.run(command, cwd=CHECKOUT, check=False).returncode == 0


@pytest.mark.parametrize(
    "name", ["notes.txt", "codservice-copy/settings.py", "my-compose.yaml", "tests/x.py", "deploy/x"]
)
def test_the_image_is_built_from_a_list(name: str) -> None:
    assert not dockerfile.lets_through(CHECKOUT, name)


@pytest.mark.parametrize("end", ["\n", ""])
def test_images_of_others_are_held_to_digests_by_a_tool_alone(tmp_path: Path, end: str) -> None:
    named = dict(re.findall(r"\$\{(\w+_IMAGE):-([\w./:-]+)\}", (CHECKOUT / "compose.yaml").read_text()))
    named |= dict(re.findall(r"^ARG (\w+_IMAGE)=(\S+)", "".join(file.read_text() for file in DOCKERFILES), re.M))
    (tmp_path / ".env").write_text(f"CADDY_IMAGE=caddy:1\nDOMAIN=cod.example.dz{end}")
    docker = tmp_path / "bin/docker"
    docker.parent.mkdir()
    docker.write_text('#!/bin/sh\necho sha256:$(printf %s "$6" | sha256sum | cut -c1-64)\n')
    docker.chmod(0o755)
    path = f"{docker.parent}:{os.environ['PATH']}"

    for _ in range(2):
        script = OPERATIONS / "compose/pin-images.sh"
        subprocess.run(["sh", script], cwd=tmp_path, env=os.environ | {"PATH": path}, check=True, capture_output=True)

    lines = (tmp_path / ".env").read_text().splitlines()
    assert lines[0] == "DOMAIN=cod.example.dz"
    pinned = dict(re.fullmatch(r"(\w+)=(\S+)@sha256:[0-9a-f]{64}", line).groups() for line in lines[1:])  # type: ignore[union-attr]
    assert pinned == named
    assert len(lines) == 1 + len(named) == 6


def test_no_digest_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DOMAIN=cod.example.dz\n")
    (tmp_path / "docker").write_text("#!/bin/sh\n")
    (tmp_path / "docker").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"

    done = subprocess.run(
        ["sh", OPERATIONS / "compose/pin-images.sh"],
        cwd=tmp_path, env=os.environ | {"PATH": path}, check=False, capture_output=True, text=True,
    )  # fmt: skip

    assert done.returncode == 1
    assert "gave no digest" in done.stderr
    assert {file.name for file in tmp_path.iterdir()} == {".env", "docker"}
    assert (tmp_path / ".env").read_text() == "DOMAIN=cod.example.dz\n"


def test_the_list_of_processes_shows_no_password(tmp_path: Path) -> None:
    written = "n0b0dy's"
    secret = tmp_path / "written"
    secret.write_text(f"{written}\n")
    script = (OPERATIONS / "compose/make-database.sh").read_text()
    assert "/run/secrets/database_password" in script
    (tmp_path / "psql").write_text('#!/bin/sh\necho "$@" > arguments\ncat > statements\n')
    (tmp_path / "psql").chmod(0o755)

    subprocess.run(
        ["bash", "-c", script.replace("/run/secrets/database_password", str(secret))],
        cwd=tmp_path, env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "POSTGRES_USER": "postgres"}, check=True,
    )  # fmt: skip

    assert written not in (tmp_path / "arguments").read_text()
    assert f"`cat {secret}`" in (tmp_path / "statements").read_text()


DOCKER = """#!/bin/sh
echo "$*" >> told
case "$*" in
    "compose ps --all"*) cat webs ;;
    "compose ps"*) grep -v dead webs ;;
    "compose up"*) printf 'new-1\\nnew-2\\n' >> webs ;;
    inspect*oneoff*run-*) echo True ;;
    inspect*oneoff*gone-*) exit 1 ;;
    inspect*oneoff*) echo False ;;
    inspect*) cat health ;;
    logs*) echo "$4: PORT must be a number" ;;
    rm*) for each; do :; done; sed -i "/^$each$/d" webs ;;
esac
"""


@pytest.mark.parametrize("second", ["old-2", "dead-2"])
@pytest.mark.parametrize(("health", "status"), [("healthy", 0), ("unhealthy", 1)])
def test_webs_that_do_not_answer_go_and_the_next_try_begins_as_this_one(
    tmp_path: Path, health: str, status: int, second: str
) -> None:
    webs = f"old-1\n{second}\nrun-1\ngone-1\n"
    left = ["old-1", second, "run-1", "gone-1"] if status else ["run-1", "gone-1", "new-1", "new-2"]
    for name, text in (("docker", DOCKER), ("sleep", "#!/bin/sh\n"), ("webs", webs), ("health", health)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    done = subprocess.run(
        ["sh", OPERATIONS / "compose/replace-web.sh"],
        cwd=tmp_path, env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=False, capture_output=True,
        text=True,
    )  # fmt: skip

    assert done.returncode == status, done.stderr
    assert (tmp_path / "webs").read_text().split() == left
    assert ("new-1: PORT must be a number" in done.stderr) == bool(status)
    assert "compose up --detach --no-deps --no-recreate --scale web=4 web" in (tmp_path / "told").read_text()


@pytest.mark.parametrize(
    ("below", "workers", "webs"),
    [
        (r"\*\*An upgrade\*\*, with nobody waiting", "no-deps worker", "replace-web.sh"),
        (r"Then, in the overlay's folder", "deployment/codservice-worker", "apply -k .\n"),
        (
            r"A changed ConfigMap or Secret",
            "rollout status --namespace codservice deployment/codservice-worker",
            "/codservice-web",
        ),
    ],
    ids=["compose", "kubernetes", "a new key in kubernetes"],
)
def test_no_old_worker_is_left_when_the_first_new_web_answers(below: str, workers: str, webs: str) -> None:
    """An old worker knows neither the tasks of a new web nor its key."""
    (lines,) = re.findall(rf"{below}.*?```bash\n(.*?)```", OPERATORS, re.S)

    assert 0 < lines.find(workers) < lines.find(webs)


@pytest.fixture
def unit() -> configparser.ConfigParser:
    """The systemd unit."""
    (text,) = re.findall(r"```ini\n(\[Unit\].*?)```", OPERATORS, re.S)
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text)
    return unit


def test_systemd_starts_it_again_for_ever(unit: configparser.ConfigParser) -> None:
    """By default systemd gives up what fails five times in ten seconds, as on a full disk, and tries every 0.1 s."""
    assert unit["Service"]["Restart"] == "always"
    assert 5 * int(unit["Service"]["RestartSec"]) > 10


def test_systemd_tells_one_process_to_stop_and_waits_as_long_as_the_parts_may_take(
    unit: configparser.ConfigParser,
) -> None:
    """By default systemd would signal PostgreSQL's sessions too, which end at once."""
    service = unit["Service"]
    assert service["KillMode"] == "mixed"
    layout = Layout(Path("/nowhere"))
    with pytest.MonkeyPatch.context() as patched:
        for name in ("_check_data", "make_runtime", "find_postgres"):
            patched.setattr(f"codservice.onebox.postgres.{name}", MagicMock())
        for name in ("make_runtime", "find_valkey"):
            patched.setattr(f"codservice.onebox.valkey.{name}", MagicMock())
        for name in ("DATABASE_URL", "REDIS_URL"):
            patched.delenv(name, raising=False)
        parts = processes(layout, Web("127.0.0.1", 8000, 2, 2))
    assert int(service["TimeoutStopSec"]) > sum(seconds for part in parts for _, seconds in part.stop)


def test_commands_beside_the_systemd_unit_have_all_of_its_settings(unit: configparser.ConfigParser) -> None:
    """With others, `prune` would delete what the service keeps."""
    service = unit["Service"]
    assert "Environment" not in service
    commands = re.findall(r"```sh\n(?:sudo |#!/bin/sh\n)(systemd-run .*?)```", OPERATORS, re.S)
    dumps = [f"/var/backups/codservice/{day}.dump" for day in ("$(date +%F)", "2026-11-21")]
    assert [shlex.split(each)[-1] for each in commands] == ["check_service", *dumps]
    for command in commands:
        words = shlex.split(command)
        for name, option in (("User", "--uid"), ("WorkingDirectory", "--working-directory")):
            assert f"{option}={service[name]}" in words
        assert f"--property=EnvironmentFile={service['EnvironmentFile']}" in words
    (settings,) = re.findall(rf"`{service['EnvironmentFile']}`.*?```ini\n(.*?)```", OPERATORS, re.S)
    assert {line.partition("=")[0] for line in settings.splitlines()} <= SETTINGS


def test_the_proxy_in_front_of_the_systemd_unit_serves_its_host_and_keeps_its_figures() -> None:
    (settings,) = re.findall(r"`/etc/codservice.env`.*?```ini\n(.*?)```", OPERATORS, re.S)
    (host,) = re.findall(r"^ALLOWED_HOSTS=(.+)$", settings, re.M)
    (listening,) = re.findall(r"^\| `HOST`, `PORT` \| `(.+?)`, `(.+?)` \|", OPERATORS, re.M)
    (caddyfile,) = re.findall(r"`/etc/caddy/Caddyfile`:\n\n```text\n(.*?)```", OPERATORS, re.S)

    directives = ["respond /metrics 404", f"reverse_proxy {':'.join(listening)}"]
    assert [line.strip() for line in caddyfile.splitlines()] == [f"{host} {{", *directives, "}"]


def test_secrets_that_are_changed_are_all_that_hold_the_passwords(tmp_path: Path) -> None:
    script = OPERATIONS / "compose/make-secrets.sh"
    subprocess.run(["sh", script], cwd=tmp_path, check=True)
    made = {file.name: file.read_text() for file in (tmp_path / "secrets").iterdir()}
    (listed,) = re.findall(r"\*\*Other passwords\*\* of database and Redis: take (.*?) out of", OPERATORS, re.S)
    for name in re.findall(r"`(\w+)`", listed):
        (tmp_path / "secrets" / name).unlink()
    subprocess.run(["sh", script], cwd=tmp_path, check=True)

    now = {file.name: file.read_text() for file in (tmp_path / "secrets").iterdir()}
    assert now.keys() == made.keys()
    kept = {name for name, text in now.items() if text == made[name]}
    assert kept == {"secret_key", "encryption_keys", "postgres_password"}
    for name in ("database_password", "redis_password"):
        assert not any(made[name] in text for text in now.values())


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
    # Migrations get the second URL as DATABASE_URL.
    assert given - {"DIRECT_DATABASE_URL"} <= SETTINGS
    assert {"SECRET_KEY", "ENCRYPTION_KEYS", "DATABASE_URL", "REDIS_URL", "ALLOWED_HOSTS", "TRUSTED_PROXIES"} <= given


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The base as kubectl renders it with the manual's overlay."""
    if not (kubectl := shutil.which("kubectl")):
        pytest.skip("kubectl is not here; it renders the base")
    folder = tmp_path_factory.mktemp("overlay")
    shutil.copytree(OPERATIONS / "kubernetes", folder / "kubernetes")
    (folder / "ours").mkdir()
    (text,) = re.findall(r"```yaml\n(apiVersion: kustomize.*?)```", OPERATORS, re.S)
    (folder / "ours/kustomization.yaml").write_text(text)
    shutil.copy2(OPERATIONS / "kubernetes/secret.example.yaml", folder / "ours/secret.yaml")
    done = subprocess.run([kubectl, "kustomize", folder / "ours"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (folder / "rendered.yaml").write_text(done.stdout)
    assert "passed" in checked("kubernetes-validate", "--strict", folder / "rendered.yaml")
    return list(yaml.safe_load_all(done.stdout))


def test_the_base_has_all_files_and_the_overlay_says_what_is_ours(overlay: list[dict[str, Any]]) -> None:
    base = yaml.safe_load((OPERATIONS / "kubernetes/kustomization.yaml").read_text())
    files = {file.name for file in (OPERATIONS / "kubernetes").glob("*.yaml")}
    assert {*base["resources"], "kustomization.yaml", "secret.example.yaml"} == files

    images = {
        each["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in overlay
        if "template" in each.get("spec", {})
    }
    assert images == {"registry.shop.example/codservice:0.1.0"}
    assert {each["metadata"]["namespace"] for each in overlay} == {"codservice"}
    assert "cod.example.dz" not in json.dumps(overlay)
    first = [
        each
        for each in overlay
        if each["metadata"]["labels"].get("app.kubernetes.io/component") not in ("web", "worker", "beat")
    ]
    assert sorted(each["kind"] for each in first) == ["ConfigMap", "Job", "NetworkPolicy", "Secret"]


def test_workers_are_as_many_as_deliveries_wait_for(overlay: list[dict[str, Any]]) -> None:
    scaled = {each["metadata"]["name"]: each["spec"] for each in overlay if each["kind"] == "HorizontalPodAutoscaler"}
    assert set(scaled) == {"codservice-web", "codservice-worker"}
    (metric,) = scaled["codservice-worker"]["metrics"]
    assert metric["external"]["metric"]["name"] == "codservice_oldest_due_seconds"
    for each in overlay:
        if each["kind"] == "Deployment":
            assert ("replicas" in each["spec"]) == (each["metadata"]["name"] not in scaled)


def test_every_pod_that_stays_has_probes_and_a_disruption_budget(overlay: list[dict[str, Any]]) -> None:
    deployments = [each for each in overlay if each["kind"] == "Deployment"]
    budgets = {each["metadata"]["name"] for each in overlay if each["kind"] == "PodDisruptionBudget"}
    assert budgets == {each["metadata"]["name"] for each in deployments}
    for each in deployments:
        (container,) = each["spec"]["template"]["spec"]["containers"]
        assert {"startupProbe", "livenessProbe"} <= set(container), each["metadata"]["name"]


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


def test_a_worker_has_room_for_the_largest_file_that_merchants_upload() -> None:
    (worker,) = [pod for pod in pods() if pod["containers"][0]["name"] == "worker"]
    (tmp,), (container,) = worker["volumes"], worker["containers"]
    assert size_of(container["resources"]["limits"]["memory"]) >= sheets.MAX_MEMORY + (256 << 20)
    assert "medium" not in tmp["emptyDir"], "what lies in memory counts as the worker's"
    assert size_of(tmp["emptyDir"]["sizeLimit"]) >= sheets.MAX_WRITTEN + arrival.MAX_BYTES


def size_of(quantity: str) -> int:
    return int(quantity[:-2]) << {"Mi": 20, "Gi": 30}[quantity[-2:]]


def test_web_and_workers_have_the_time_to_stop_that_the_manual_asks_for() -> None:
    (seconds,) = map(int, re.findall(r"Give them (\d+) seconds", OPERATORS))
    for pod in pods():
        if pod["containers"][0]["name"] in ("web", "worker"):
            assert pod["terminationGracePeriodSeconds"] >= seconds
    for name in ("web", "worker"):
        assert COMPOSE["services"][name]["stop_grace_period"] == f"{seconds}s"


def test_workers_alone_leave_the_cluster_and_reach_nothing_private() -> None:
    policies = {each["metadata"]["name"]: each["spec"] for each in resources() if each["kind"] == "NetworkPolicy"}
    everybody = {"app.kubernetes.io/name": "codservice"}
    assert policies["codservice"]["podSelector"] == {"matchLabels": everybody}
    assert policies["codservice"]["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policies["codservice"], "what no policy allows is closed"
    out = {
        name: [to["ipBlock"] for rule in spec.get("egress", []) for to in rule["to"] if "ipBlock" in to]
        for name, spec in policies.items()
    }
    assert [name for name, blocks in out.items() if blocks] == ["codservice-worker"]
    closed = {block["cidr"]: set(block["except"]) for block in out["codservice-worker"]}
    refused = {version: {str(each) for each in addresses._REFUSED if each.version == version} for version in (4, 6)}
    assert closed == {"0.0.0.0/0": refused[4], str(addresses._GLOBAL_UNICAST): refused[6]}


def test_without_openssl_no_secret_is_empty(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "cat", "chmod", "mkdir", "tr"):
        (programs / name).symlink_to(shutil.which(name) or name)
    command = ["sh", OPERATIONS / "compose/make-secrets.sh"]

    done = subprocess.run(command, cwd=tmp_path, env={"PATH": str(programs)}, capture_output=True, text=True)

    assert done.returncode == 1
    assert "openssl is missing" in done.stderr
    assert list(tmp_path.iterdir()) == [programs]


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
