from datetime import timedelta

from django.db import models

KEPT_FOR = timedelta(hours=24)  # docs/idempotency.md
MAX_KEY = 255  # characters


class IdempotencyRecord(models.Model):
    """The answer that was given to an `Idempotency-Key`, kept for KEPT_FOR."""

    account = models.ForeignKey("accounts.Account", on_delete=models.CASCADE, related_name="+", db_index=False)
    key = models.CharField(max_length=MAX_KEY)
    fingerprint = models.BinaryField(max_length=32, help_text="SHA-256 of method, path and body")
    status = models.PositiveSmallIntegerField()
    body = models.BinaryField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            # One answer for each key of an account, even in a race. Also the index of the lookup.
            models.UniqueConstraint(fields=["account", "key"], name="one_answer_per_idempotency_key"),
        ]
        indexes = [
            # For pruning old answers.
            models.Index(fields=["created_at"], name="idempotency_created_at"),
        ]
