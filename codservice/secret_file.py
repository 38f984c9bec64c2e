"""The two secrets that an installation must keep, generated once and stored beside its data, and former ones."""

import base64
import contextlib
import os
import secrets as random
from pathlib import Path

from codservice.data_folder import Layout, keep_name, make_data_folder
from codservice.errors import CannotStart

NAMES = ("SECRET_KEY", "ENCRYPTION_KEYS")
MORE = ("SECRET_KEY_FALLBACKS",)  # which people write into the file


def secrets(data_dir: Path, *, create: bool = True) -> dict[str, str]:
    """Return `SECRET_KEY` and `ENCRYPTION_KEYS` of this data folder, and any of MORE, from its `secrets.env`.

    A missing file is made (mode 0600) unless `create` is false; then the result is empty. A file that others can read
    is closed to them. Any number of processes may call this at once: they agree on one file. Raises `CannotStart` if
    the file cannot be read or made, lacks a name or has another, or is missing beside a database, which new secrets
    would not fit.
    """
    path, cluster = Layout(data_dir).secrets, Layout(data_dir).cluster
    try:
        is_old = cluster.exists()  # checked before its secrets, as another process may make those and then the cluster
        if not path.exists():
            if not create:
                return {}
            if is_old:
                raise CannotStart(
                    f"{path} is missing, but its database {cluster} exists. Restore the file from your copy, or set"
                    f" {' and '.join(NAMES)} to the values that the service uses."
                )
            make_data_folder(Layout(data_dir))
            _write_once(path)
        elif path.stat().st_mode & 0o077:  # as a copy may have
            with contextlib.suppress(OSError):  # it belongs to somebody else, or the disk is read-only
                path.chmod(0o600)
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise CannotStart(f"The secrets file {path} cannot be read or created: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise CannotStart(f"{path} is not a text file. Restore it from your copy.") from error
    return _pairs(path, lines)


def _pairs(path: Path, lines: list[str]) -> dict[str, str]:
    pairs = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, value = line.partition("=")
        if name not in NAMES + MORE:  # it is not quoted: it may be a secret
            raise CannotStart(
                f"{path} has in line {number} none of {', '.join(NAMES + MORE)}, and nothing else is read from it."
                " Correct the line, or take it out."
            )
        pairs[name] = value
    if missing := [name for name in NAMES if not pairs.get(name)]:
        raise CannotStart(f"{path} has no {' and no '.join(missing)}. Restore it from your copy.")
    return pairs


def _write_once(path: Path) -> None:
    """Write new secrets unless another process was first.

    The file appears as a link to one that is already complete, so that nobody reads half of it and secrets are never
    replaced after they were used.
    """
    encryption_key = base64.urlsafe_b64encode(random.token_bytes(32)).decode()
    text = (
        "# Created at the first start. Keep a copy, in another place than your backups: without ENCRYPTION_KEYS, the\n"
        "# signing secrets of webhooks cannot be read.\n"
        f"SECRET_KEY={random.token_urlsafe(48)}\n"
        f"ENCRYPTION_KEYS={encryption_key}\n"
    )
    draft = path.with_name(f".{path.name}.{os.getpid()}.{random.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        keep_name(path)  # also if another process was first: it may not have come so far
    finally:
        draft.unlink()
