"""The gateway's WSGI side: the environment for the application, and how its answer is taken."""

import io
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

Message = dict[str, Any]
Application = Callable[..., Iterable[bytes]]

# An answer is made in pieces of about this size.
PIECE_BYTES = 128 << 10


class Answer:
    """The answer of a WSGI application, taken piece by piece, each in whichever thread is free."""

    status: int
    headers: list[tuple[bytes, bytes]]

    def __init__(self) -> None:
        self.is_whole = False
        self.is_asked = False  # whether the application was asked for it; settled once it is given up
        self._lock = threading.Lock()  # whether it has begun or is given up first decides who closes it
        self._has_begun = self._is_given_up = False
        self._answered: Iterable[bytes] = ()
        self._pieces: Iterator[bytes] = iter(())

    def begin(self, application: Application, environ: dict[str, Any]) -> bytes:
        """Have the application answer, and return the first pieces as `next` does. Does nothing once it is given up."""
        with self._lock:
            if self._is_given_up:
                return b""
            self.is_asked = True
        self._answered = application(environ, self._start)
        self._pieces = iter(self._answered)
        first = self.next()
        with self._lock:
            self._has_begun = True
            if self._is_given_up:
                self.close()
        return first

    def give_up(self) -> bool:
        """Tell `begin`, if it is under way, to close the answer at its end. Returns whether that end has passed, so
        that the caller must close it."""
        with self._lock:
            self._is_given_up = True
            return self._has_begun

    def _start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
        self.status = int(status[:3])
        self.headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        if self.status == HTTPStatus.NOT_MODIFIED:  # Django says 0, but it means the length of what is not sent
            self.headers = [(name, value) for name, value in self.headers if name != b"content-length"]

    def next(self) -> bytes:
        """Return the next pieces joined, PIECE_BYTES or more unless they are the last; empty at the end."""
        gathered, size = [], 0
        try:
            for piece in self._pieces:
                gathered.append(piece)
                size += len(piece)
                if size >= PIECE_BYTES:
                    break
            else:
                self.is_whole = True
                self.close()
        except BaseException:
            self.close()
            raise
        return gathered[0] if len(gathered) == 1 else b"".join(gathered)

    def close(self) -> None:
        """Close the answer; a second call does nothing."""
        answered, self._answered, self._pieces = self._answered, (), iter(())
        if hasattr(answered, "close"):
            answered.close()


def environ(scope: Message, body: bytes) -> dict[str, Any]:
    """Return the WSGI environment of a complete request."""
    host, port = scope["server"]
    result: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "SERVER_PROTOCOL": "HTTP/" + scope["http_version"],
        "REMOTE_ADDR": scope["client"][0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, sent in scope["headers"]:
        # A name with an underscore would look like the one with a dash that a proxy has checked.
        if b"_" in name:
            continue
        key, value = "HTTP_" + name.decode("latin-1").upper().replace("-", "_"), sent.decode("latin-1")
        if key in result:
            # With a space (RFC 9110, 5.3), so that two idempotency keys do not form a valid third: keys have no spaces.
            value = result[key] + ("; " if key == "HTTP_COOKIE" else ", ") + value
        result[key] = value
    if not result.get("HTTP_HOST"):  # HTTP/1.0 needs none, and granian then passes an empty one
        result.pop("HTTP_HOST", None)
    result.pop("HTTP_TRANSFER_ENCODING", None)
    declared = result.pop("HTTP_CONTENT_LENGTH", None)
    if body or declared:
        result["CONTENT_LENGTH"] = str(len(body))
    if (kind := result.pop("HTTP_CONTENT_TYPE", None)) is not None:
        result["CONTENT_TYPE"] = kind
    return result
