"""Tries compose.yaml under a container engine, from the build to a restored backup: `make test-containers`.

    python -m tests.containers [--cached]   (uses the cache of earlier builds)

Runs every command of docs/operators.md, "One machine, in containers", word for word. Prints a row for each thing tried,
and at the end the table. Exits with 1 if a row is not as promised. CONTAINERS_DIR is where the engine and base images
are kept between runs, if they have to be made.
"""

import os
import re
import shutil
import signal
import sys
import time
from datetime import datetime
from pathlib import Path

from tests.containers.engine import OwnEngine, running_engine
from tests.containers.load import BODY, DOMAIN
from tests.containers.project import Project, judge, load
from tests.containers.report import Table, expect
from tests.harness.processes import CHECKOUT
from tests.webhooks.engine.certificates import Authority

HERE = Path(__file__).parent
IMAGE_BYTES, BUILD_SECONDS, READY_SECONDS, IDLE_BYTES = 250e6, 100.0, 2.0, 500e6
# Files of a checkout that no image may contain.
PLANTED = ("codservice.dump", "secrets-copy.pem", ".env", "docs/notes.dump", "docs/operations/kubernetes/secret.yaml")
MIGRATION = """from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("orders", "{last}")]
    operations = [migrations.RunSQL("CREATE TABLE tried_upgrade (id int)", "DROP TABLE tried_upgrade")]
"""
CONFIRM = """
from codservice.accounts.actor import Actor
from codservice.accounts.models import User
from orders import lifecycle
lifecycle.confirm("{id}", actor=Actor.of_staff(User.objects.get(username="operator")))
"""

# Prints when web answers, and the processor time that its container has taken until then.
READY = """
import os
import time
from codservice.run.web import Web

web = Web.from_environ()
while web.get("/healthz")[0] != 200:
    time.sleep(0.02)
ready = time.time()
ticks = 0
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) != os.getpid():
        ticks += sum(map(int, open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[11:13]))
print(ready, ticks / os.sysconf("SC_CLK_TCK"))
"""


def make_receiver(project: Project) -> None:
    """Make the receiver's certificate, and authorities/receiver.pem for WEBHOOK_CA_FILE."""
    folder, authorities = project.folder / "receiver", project.folder / "authorities"
    folder.mkdir()
    authorities.mkdir(exist_ok=True)
    shutil.copy2(HERE / "receiver.py", folder)
    shutil.move(Authority(authorities, "receiver").certified("receiver.example"), folder / "receiver.pem")


def bytes_of(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)\s*([kKMG]?i?B)", text.strip()).groups()  # type: ignore[union-attr]
    return float(number) * {"B": 1, "kB": 1e3, "KiB": 2**10, "MB": 1e6, "MiB": 2**20, "GB": 1e9, "GiB": 2**30}[unit]


def how_busy() -> str:
    """How busy the machine is: measured seconds only count on an idle one."""
    return f"{os.getloadavg()[0] / (os.cpu_count() or 1):.0f} processes for each processor"


def build_and_start(project: Project, table: Table) -> None:
    engine = project.engine
    project.sh("sh docs/operations/compose/make-secrets.sh")
    project.sh(f"echo DOMAIN={DOMAIN} > .env")
    for name in PLANTED:
        (project.folder / name).write_text(
            (project.folder / name).read_text() if (project.folder / name).exists() else "x"
        )
    with table.row("docker compose build") as row, engine.way_out():
        began = time.monotonic()
        said = project.compose("--progress", "plain", "build", *(() if "--cached" in sys.argv else ("--no-cache",)))
        seconds = time.monotonic() - began
        (engine.work / "build.log").write_text(said)
        row.append(f"{seconds:.0f} s of {BUILD_SECONDS:.0f}, {how_busy()}")
        expect(seconds <= BUILD_SECONDS, "too slow")
    with table.row("size of the image") as row:
        size = float(engine.run("docker", "image", "inspect", "--format", "{{.Size}}", "codservice"))
        base = float(engine.run("docker", "image", "inspect", "--format", "{{.Size}}", "python:3.11-slim-bookworm"))
        row.append(f"{size / 1e6:.0f} MB of {IMAGE_BYTES / 1e6:.0f}, the base {base / 1e6:.0f}")
        expect(size <= IMAGE_BYTES, "too large")
    with table.row("no secret, dump or test in the image") as row:
        found = engine.run(
            "docker", "run", "--rm", "--entrypoint", "sh", "codservice", "-c", "cd /app && find . -type f"
        )
        files = [line.removeprefix("./") for line in found.splitlines()]
        tops = {name.partition("/")[0] for name in files}
        row.append(f"{len(files)} files in {', '.join(sorted(tops))}")
        expect(not set(PLANTED) & set(files), f"{set(PLANTED) & set(files)} got in")
        expect(
            not tops & {"tests", "secrets", "benchmarks", "authorities", ".git", "backups"}, "more got in than belongs"
        )
    with table.row("docker run codservice, without settings") as row:
        status, said = engine.status("docker", "run", "--rm", "codservice")
        row.append(f"exit status {status}: {said.strip()[:120]}")
        expect(status == 1 and "SECRET_KEY, ENCRYPTION_KEYS, DATABASE_URL" in said and "Traceback" not in said, said)
    with table.row("docker compose up --build --detach --wait") as row:
        with engine.way_out():
            project.sh("docker compose up --build --detach --wait")
        row.append("exit status 0")


def first_steps(project: Project, table: Table) -> None:
    with table.row("the first operator") as row:
        said = project.sh("docker compose logs migrate")
        password = re.search(r"sign in as operator with the password (\S+)", said)
        expect(password, f"no password in the log of migrate: {said[-500:]}")
        project.sh("docker compose cp proxy:/data/caddy/pki/authorities/local/root.crt .")
        row.append(f"through the proxy after {project.wait_for('/healthz'):.1f} s")
        said = project.sh("docker compose exec -T web python manage.py check_service")
        row.append(f"check_service: {said.count(': ok')} ok")
        status, page = project.curl("/console/login/", "-c", "jar")
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        expect(status == 200 and token, f"/console/login/: {status}")
        form = ["-b", "jar", "-c", "jar", "-e", f"https://{DOMAIN}/console/login/", "--data-urlencode"]
        form += [f"csrfmiddlewaretoken={token[1]}", "--data-urlencode", "username=operator"]  # type: ignore[index]
        form += ["--data-urlencode", f"password={password[1]}", "-D", "-"]  # type: ignore[index]
        status, page = project.curl("/console/login/", *form)
        expect(status == 302, f"signing in: {status}")
        row.append("signs in over HTTPS with the password of the log")
    with table.row("ready after its container starts") as row:
        project.sh("docker compose up --detach --scale web=3")
        newest = max(project.containers("web"), key=lambda each: project.inspect(each)["State"]["StartedAt"])
        project.compose("stop", "--timeout", "20", "worker")  # so that nothing else begins meanwhile
        project.engine.run("docker", "stop", newest)
        project.engine.run("docker", "start", newest)
        ready, worked = map(float, project.engine.run("docker", "exec", newest, "python", "-c", READY).split())
        started = re.sub(r"\.(\d{6})\d*Z", r".\1+00:00", project.inspect(newest)["State"]["StartedAt"])
        seconds = ready - datetime.fromisoformat(started).timestamp()
        row.append(f"{seconds:.1f} s of {READY_SECONDS:.0f}, of which it worked {worked:.1f} s, {how_busy()}")
        project.sh("docker compose up --detach --wait")
        expect(len(project.containers("web")) == 2, "up without --scale goes back to the file's number")
        expect(min(seconds, worked) <= READY_SECONDS, "too slow")
    with table.row("idle memory of the whole project") as row:
        time.sleep(45)
        names = project.compose("ps", "--quiet").split()
        each: dict[str, float] = {}
        for _ in range(5):  # the least counts: a health check's own process has some 25 MB
            lines = project.engine.run("docker", "stats", "--no-stream", "--format", "{{.Name}} {{.MemUsage}}", *names)
            for line in lines.splitlines():
                name, size = line.split()[0].removeprefix("codservice-"), bytes_of(line.split()[1])
                each[name] = min(size, each.get(name, size))
        row.append(f"{sum(each.values()) / 1e6:.0f} MB of {IDLE_BYTES / 1e6:.0f}: ")
        row[-1] += ", ".join(f"{name} {size / 1e6:.0f}" for name, size in sorted(each.items()))
        expect(sum(each.values()) <= IDLE_BYTES, "too much")
    with table.row("logs are bounded, nobody may more than needed") as row:
        for container in project.compose("ps", "--all", "--quiet").split():
            host = project.inspect(container)["HostConfig"]
            name = project.inspect(container)["Name"]
            expect(host["LogConfig"]["Config"].get("max-size") == "10m", f"{name}: {host['LogConfig']}")
            expect("ALL" in host["CapDrop"] and host["ReadonlyRootfs"], f"{name}: {host['CapDrop']} {host['CapAdd']}")
        row.append("10 MB five times each; no capabilities but the proxy's one; all root file systems read-only")


def settings_and_a_delivery(project: Project, table: Table) -> None:
    with table.row("settings and scale from .env") as row:
        make_receiver(project)
        shutil.copy2(HERE / "override.yaml", project.folder / "compose.override.yaml")
        with (project.folder / ".env").open("a") as file:
            file.write("WEB_REPLICAS=3\nWORKER_REPLICAS=2\nAPI_RATE_LIMIT=100000\n")
            file.write(f"METRICS_TOKEN={'x' * 20}\n")
            file.write("WEBHOOK_CA_FILE=/etc/codservice/authorities/receiver.pem\n")
        for _ in range(2):
            project.sh("docker compose up --detach --wait")
            expect(len(project.containers("web")) == 3 and len(project.containers("worker")) == 2, "up took them back")
        web = project.containers("web")[0]
        settings = project.inspect(web)["Config"]["Env"]
        expect(f"METRICS_TOKEN={'x' * 20}" in settings, "METRICS_TOKEN is not given")
        row.append("3 webs and 2 workers, after a second `up` too; METRICS_TOKEN and WEBHOOK_CA_FILE arrive")
    with table.row("import, confirm, delivery over HTTPS") as row:
        project.sh(
            'docker compose exec -T web python manage.py create_account "Boutique Yasmine" --email yasmine@example.dz'
        )
        said = project.sh("docker compose exec -T web python manage.py create_api_key --account yasmine@example.dz")
        project.key = re.findall(r"cod_live_\w+", said)[0]
        events = ["order.confirmed", "order.cancelled"]
        project.api("POST", "/webhooks", {"url": "https://receiver.example:8443/hooks", "events": events})
        order = project.api("POST", "/orders", BODY)
        began = time.monotonic()
        project.compose("exec", "-T", "web", "python", "manage.py", "shell", "-c", CONFIRM.format(id=order["id"]))
        while not project.received() and time.monotonic() - began < 30:
            time.sleep(0.3)
        expect(len(project.received()) == 1, "no delivery within 30 s")
        row.append("imported, confirmed, received")


def changes_under_load(project: Project, table: Table) -> None:
    with table.row("rolling restart under load") as row, load(project, 25) as sent:
        project.sh("sh docs/operations/compose/replace-web.sh")
    with table.row("… what came of it") as row:
        judge(project, sent, row, may_fail=False)
    with table.row("upgrade with a migration under load") as row, load(project, 45) as sent:
        folder = project.folder / "orders/migrations"
        last = sorted(path.stem for path in folder.glob("0*.py"))[-1]
        (folder / f"{int(last[:4]) + 1:04}_tried_upgrade.py").write_text(MIGRATION.format(last=last))
        with project.engine.way_out():
            project.sh("docker compose build")
        for line in in_manual(project.folder, "An upgrade")[2:]:
            project.sh(line)
    with table.row("… what came of it") as row:
        expect(project.psql("SELECT to_regclass('tried_upgrade')"), "the migration was not made")
        judge(project, sent, row, may_fail=False)


def deaths_under_load(project: Project, table: Table) -> None:
    for service in ("web", "worker", "database"):
        with table.row(f"kill -9 of a {service} under load") as row, load(project, 20) as sent:
            container = project.containers(service)[0]
            os.kill(project.inspect(container)["State"]["Pid"], signal.SIGKILL)
            time.sleep(10)
            state = project.inspect(container)["State"]
            row.append(f"runs again: {state['Running']}, {state.get('Health', {}).get('Status')}")
            expect(state["Running"], "it was not started again")
        with table.row("… what came of it") as row:
            judge(project, sent, row, may_fail=True)
    if not isinstance(project.engine, OwnEngine):
        return
    with table.row("kill -9 of the engine under load") as row, load(project, 40) as sent:
        os.kill(project.engine.dockerd, signal.SIGKILL)
        time.sleep(2)
        project.engine.wait()
        row.append(f"web answers again after {2 + project.wait_for():.0f} s")
    with table.row("… what came of it") as row:
        judge(project, sent, row, may_fail=True)


def counts(project: Project) -> str:
    tables = ("orders_order", "webhooks_delivery", "accounts_user", "webhooks_webhook")
    return project.psql(" || ' ' || ".join(f"(SELECT count(*) FROM {name})" for name in tables).join(("SELECT ", "")))


def backups(project: Project, table: Table, checkout: Path) -> None:
    before = ""
    with table.row("docker compose run --rm backup") as row:
        before = counts(project)
        file = project.folder.parent / "codservice-backups/codservice.dump"
        file.unlink(missing_ok=True)  # of an earlier run
        project.sh("docker compose run --rm backup codservice.dump")
        row.append(f"{file.stat().st_size} bytes, mode {file.stat().st_mode & 0o777:o}, outside of the checkout")
        expect(file.stat().st_mode & 0o077 == 0, "others may read it")
    with table.row("restore in place") as row:
        project.psql("DELETE FROM webhooks_attempt; DELETE FROM webhooks_claim; DELETE FROM webhooks_delivery")
        for line in in_manual(checkout, "In place"):
            project.sh(line.replace("codservice-2026-11-21.dump", "codservice.dump"))
        expect(counts(project) == before, f"{before} before, {counts(project)} after")
        project.sh("docker compose exec -T web python manage.py check_service")
        row.append(f"orders, deliveries, people, webhooks: {before}; check_service: 0")
    with table.row("down, up") as row:
        project.sh("docker compose down")
        project.sh("docker compose up --detach --wait")
        expect(counts(project) == before, f"{before} before, {counts(project)} after")
        project.wait_for("/healthz")  # with the same authority
        row.append("the same data, the same certificates")
    with table.row("restore on a new machine") as row:
        project.sh("docker compose down")
        other = Project(project.engine, checkout, "other")
        try:
            (other.folder / "compose.yaml").write_text(
                (other.folder / "compose.yaml").read_text().replace("name: codservice", "name: codservice-other", 1)
            )
            shutil.copytree(project.folder / "secrets", other.folder / "secrets")
            (other.folder / ".env").write_text(f"DOMAIN={DOMAIN}\n")
            for line in in_manual(checkout, "On a new machine"):
                other.sh(line.replace("codservice-2026-11-21.dump", "codservice.dump"))
            expect(counts(other) == before, f"{before} before, {counts(other)} after")
            other.sh("docker compose exec -T web python manage.py check_service")
            row.append(f"orders, deliveries, people, webhooks: {before}; check_service: 0")
        finally:
            other.compose("down", "--volumes")


def in_manual(checkout: Path, title: str) -> list[str]:
    """The commands below a bold title in the manual's part about containers."""
    text = (checkout / "docs/operators.md").read_text()
    block = re.search(rf"\*\*{title}\*\*.*?```bash\n(.*?)```", text, re.S)
    expect(block, f"docs/operators.md has nothing under {title}")
    return block[1].strip().splitlines()  # type: ignore[index]


def main() -> int:
    checkout = CHECKOUT
    signal.signal(signal.SIGTERM, lambda *args: sys.exit(1))  # so that what was started is stopped
    folder = Path(os.environ.get("CONTAINERS_DIR") or "/var/tmp/codservice-containers")
    folder.mkdir(parents=True, exist_ok=True)
    table = Table()
    with running_engine(folder, table.row) as engine:
        project = Project(engine, checkout, "checkout")
        try:
            build_and_start(project, table)
            first_steps(project, table)
            settings_and_a_delivery(project, table)
            changes_under_load(project, table)
            deaths_under_load(project, table)
            backups(project, table, checkout)
        finally:
            project.engine.run("docker", "compose", "down", "--volumes", folder=project.folder, may_fail=True)
            table.print()
    return int(not all(is_well for *_, is_well in table.rows))


if __name__ == "__main__":
    sys.exit(main())
