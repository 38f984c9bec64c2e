"""The one voice of /api/v1: errors, request ids, rate limit, idempotency, paging, JSON in and out.

A request passes, in this order: `middleware.RequestId`, `middleware.ApiGate` (key and rate limit, so that even an
unknown path answers 401 to a stranger), the URL map, the view's method, its scope (`permissions`), its body
(`adapters`, `fields`). Whatever goes wrong on the way is worded by `error_answers`.
"""
