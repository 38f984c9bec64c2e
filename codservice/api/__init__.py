"""What all of /api/v1 shares: errors, request ids, rate limit, idempotency, paging, JSON in and out.

A request passes, in this order: `middleware.RequestId`, `middleware.ApiGate` (key and rate limit, so that even an
unknown path answers 401 without a key), the URL map, the view's method, its scope (`permissions`), its body
(`adapters`, `fields`). `error_answers` words whatever goes wrong on the way.
"""
