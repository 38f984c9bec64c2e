"""`Idempotency-Key`: a repeated request gets the first answer again, and does nothing twice."""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, cast
from uuid import UUID

from django.db import IntegrityError, transaction
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from codservice import postgresql
from codservice.api.adapters import location, needed_body
from codservice.api.error_answers import exception_handler
from codservice.api.models import KEPT_FOR, MAX_KEY, IdempotencyRecord
from codservice.errors import Invalid, Refused
from codservice.wire import dump_json, load_json

KEY_PATTERN = f"^[!-~]{{1,{MAX_KEY}}}$"  # as JSON Schema has it too
_KEY = re.compile(KEY_PATTERN)


class StillRunning(Refused):
    """Another request with this key has not been answered yet."""

    code, status = "idempotency_conflict", 409
    message = "A request with this Idempotency-Key is still being processed. Try again shortly."


def once(view: Callable[..., Response]) -> Callable[..., HttpResponse]:
    """Make a view's method run once for each `Idempotency-Key`. Repeated requests get the kept answer.

    What the method writes and the kept answer are committed together, so that no crash can come between them. A
    refusal (422) is an answer and is kept, so the method must have written nothing when it refuses. Other refusals,
    which may pass, and errors of ours (5xx) are not kept. Without the header the method is simply called. Raises
    Invalid for a key that cannot be used or that was used with another body, MalformedJSON without a body, and
    StillRunning.
    """

    @wraps(view)
    def answer(self: Any, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        key = request.META.get("HTTP_IDEMPOTENCY_KEY")
        if key is None:
            return view(self, request, *args, **kwargs)
        if not _KEY.fullmatch(key):
            raise Invalid({"Idempotency-Key": [f"Must be one key of 1 to {MAX_KEY} visible ASCII characters."]})
        account_id = request.auth.account_id
        fingerprint = _fingerprint(request)
        try:
            with transaction.atomic():
                kept = _claim(account_id, key)
                if kept is not None:
                    return _replay(request, kept, fingerprint)
                try:
                    response = view(self, request, *args, **kwargs)
                except Refused as error:
                    if error.status != 422:
                        raise
                    response = cast(Response, exception_handler(error, {}))
                _keep(account_id, key, fingerprint, response)
                return response
        except IntegrityError:
            # Another request's answer was committed between our look and our lock.
            kept = IdempotencyRecord.objects.filter(account_id=account_id, key=key).first()
            if kept is None:
                raise
            return _replay(request, kept, fingerprint)

    return answer


# Scans each answer once, however many ids are looked for: an account may have hundreds of thousands of answers a day.
# `"id":"` can only be a member that `dump_json` wrote; within a text the quotation marks would be escaped. The lock is
# there because one answer may tell of several customers who are erased at the same time.
_NAMING = """
SELECT id, body FROM api_idempotencyrecord WHERE account_id = %s AND EXISTS (
    SELECT FROM unnest(string_to_array(convert_from(body, 'UTF8'), '"id":"')) AS behind(text)
    WHERE left(behind.text, 36) = ANY(%s)
) ORDER BY id FOR NO KEY UPDATE
"""


def overwrite(account_id: UUID, ids: Collection[str], current: Callable[[str], Mapping[str, Any]]) -> None:
    """Change kept answers: an object with one of these ids takes the values of its members that `current` gives for it.

    `current` is called for ids that are found in an answer, one by one. Runs in the caller's transaction. A repeated
    answer then no longer equals the first one to the byte.
    """

    def members(id_: Any) -> Mapping[str, Any]:
        return current(id_) if isinstance(id_, str) and id_ in ids else {}

    for record in IdempotencyRecord.objects.raw(_NAMING, [account_id, list(ids)]):
        body = dump_json(_overwritten(load_json(bytes(record.body)), members))
        IdempotencyRecord.objects.filter(id=record.id).update(body=body)


def forget(account_id: UUID, ids: Collection[UUID]) -> None:
    """Forget kept answers that tell of an object with one of these ids. Runs in the caller's transaction."""
    records = IdempotencyRecord.objects.raw(_NAMING, [account_id, [*map(str, ids)]])
    IdempotencyRecord.objects.filter(id__in=[record.id for record in records]).delete()


def _overwritten(data: Any, members: Callable[[Any], Mapping[str, Any]]) -> Any:
    if isinstance(data, list):
        return [_overwritten(each, members) for each in data]
    if not isinstance(data, dict):
        return data
    new = members(data.get("id"))
    return {name: new[name] if name in new else _overwritten(value, members) for name, value in data.items()}


def _fingerprint(request: Request) -> bytes:
    """A digest of method, path and JSON, whatever the order and spacing of keys. `5.5`, `"5.5"` and `5.50` differ."""
    return hashlib.sha256(f"{request.method} {request.path}\n{_canonical(needed_body(request))!r}".encode()).digest()


def _canonical(data: Any) -> Any:
    """The JSON with its keys in order. Its repr tells the types of values apart."""
    if isinstance(data, dict):
        return {key: _canonical(data[key]) for key in sorted(data)}
    return [_canonical(each) for each in data] if isinstance(data, list) else data


def _claim(account_id: UUID, key: str) -> IdempotencyRecord | None:
    """The kept answer, or None with the right to make one: an advisory lock held until the transaction ends.

    A client chooses the key. Its lock has two numbers, so that no key makes it one of ours, which have one.
    """
    kept = IdempotencyRecord.objects.raw(
        # By name: a prepared `kept.*` would fail once after each migration that adds a column.
        "SELECT kept.id, kept.account_id, kept.key, kept.fingerprint, kept.status, kept.body, kept.created_at,"
        " lock.is_ours, kept.created_at < now() - %s AS is_old"
        " FROM (SELECT pg_try_advisory_xact_lock(hashtext(%s), hashtext(%s)) AS is_ours) AS lock"
        " LEFT JOIN api_idempotencyrecord AS kept ON kept.account_id = %s AND kept.key = %s",
        [KEPT_FOR, str(account_id), key, account_id, key],
    )[0]
    if not kept.is_ours:
        raise StillRunning
    # Pruning may be late, but the promise is exactly 24 hours.
    return None if kept.pk is None or kept.is_old else kept


# Only here is an answer that is too old replaced, so that orders are locked before it as in an erasure.
_KEEP = """
INSERT INTO api_idempotencyrecord AS kept (account_id, key, fingerprint, status, body, created_at)
VALUES (%s, %s, %s, %s, %s, now())
ON CONFLICT (account_id, key) DO UPDATE SET
    fingerprint = excluded.fingerprint, status = excluded.status, body = excluded.body, created_at = excluded.created_at
WHERE kept.created_at < now() - %s
"""


def _keep(account_id: UUID, key: str, fingerprint: bytes, response: Response) -> None:
    answer = [account_id, key, fingerprint, response.status_code, dump_json(response.data)]
    if not postgresql.execute(_KEEP, [*answer, KEPT_FOR]):
        raise IntegrityError("another answer is kept for this key")


def _replay(request: Request, kept: IdempotencyRecord, fingerprint: bytes) -> HttpResponse:
    if bytes(kept.fingerprint) != fingerprint:
        raise Invalid({"Idempotency-Key": ["Was used for another request. Send a new request with a new key."]})
    body, headers = bytes(kept.body), {"Idempotent-Replayed": "true"}
    if kept.status == 201 and (created := load_json(body).get("id")):  # a batch's answer has no id of its own
        headers |= location(request, created)
    return HttpResponse(body, status=kept.status, content_type="application/json", headers=headers)
