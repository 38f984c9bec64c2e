from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from cryptography.fernet import InvalidToken
from django.core.management.base import CommandError
from django.db import transaction

from codservice import commands
from webhooks import secrets
from webhooks.models import Webhook

BATCH = 200  # webhooks per transaction


class Command(commands.Command):
    help = """Encrypt all signing secrets again with the first of ENCRYPTION_KEYS, beside the running service.

To change the key, put a new one in front of ENCRYPTION_KEYS, restart the workers and then web, and run this. When it
says that all secrets are encrypted with the first key, remove the others. Safe to run again: it skips what is done.

If a key is lost, older secrets that it encrypted are cleared, and webhooks whose newest secret it encrypted are
named."""
    examples = "rotate_encryption_key --dry-run\nrotate_encryption_key\nrotate_encryption_key --json"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count them")
        parser.add_argument("--json", action="store_true", help="print the counts as JSON")

    def handle(self, *, dry_run: bool, **options: Any) -> None:
        webhooks = list(Webhook.objects.order_by("id").values_list("id", flat=True))  # the deleted ones too
        batches = [webhooks[start : start + BATCH] for start in range(0, len(webhooks), BATCH)]
        done, unreadable = 0, list[UUID]()
        for batch in self.progress(batches, total=len(batches), unit="batches"):
            with transaction.atomic():
                # A weaker lock than that of a deletion, so that changes can still be published.
                for webhook in Webhook.objects.filter(id__in=batch).order_by("id").select_for_update(no_key=True):
                    try:
                        changes = _encrypted_anew(webhook)
                    except InvalidToken:
                        if webhook.deleted_at is None:  # a deleted one signs nothing any more
                            unreadable.append(webhook.id)
                        continue
                    done += bool(changes)
                    if changes and not dry_run:
                        Webhook.objects.filter(id=webhook.id).update(**changes)
        if options["json"]:
            counts = {"webhooks": len(webhooks), "encrypted_anew": done, "unreadable": unreadable}
            self.print_json({**counts, "dry_run": dry_run})
        else:
            self.stdout.write(f"webhooks: {len(webhooks)}, deleted ones included")
            self.stdout.write(f"encrypted anew: {done}, from an older key")
            self.stdout.write(f"unreadable: {len(unreadable)}")
        if unreadable:
            ids = ", ".join(map(str, unreadable[:10]))
            raise CommandError(
                f"The secrets of some webhooks ({len(unreadable)}) cannot be read with any of ENCRYPTION_KEYS: {ids}."
                " Put their key back, or have the merchants rotate these secrets."
            )
        if dry_run:
            self.say("Nothing was changed.")
        else:
            self.say("All secrets are encrypted with the first of ENCRYPTION_KEYS.")


def _encrypted_anew(webhook: Webhook) -> dict[str, Any]:
    """Return new values for the fields that are not encrypted under the first key.

    A previous secret that no key reads, and that therefore signs nothing, is cleared. Raises InvalidToken when no key
    reads the newest.
    """
    changes = dict[str, Any]()
    if not secrets.is_under_newest_key(bytes(webhook.secret)):
        changes["secret"] = secrets.encrypt_anew(bytes(webhook.secret))
    if (previous := webhook.previous_secret) is not None and not secrets.is_under_newest_key(bytes(previous)):
        try:
            changes["previous_secret"] = secrets.encrypt_anew(bytes(previous))
        except InvalidToken:
            changes |= dict.fromkeys(("previous_secret", "previous_secret_until"))
    return changes
