"""A Hugging Face Hub on the loopback: the parts of its HTTP API that a push and a load use.

Repositories are in memory. Files of `.parquet` go through LFS, whose store checks their SHA-256;
what a request must not do (a foreign token, a blob that is not there, an old parent) is refused
with the Hub's statuses. `fail` makes it misbehave.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass
class Fault:
    """What goes wrong with the next requests of a kind."""

    kind: str
    times: int
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    reset: bool = False  # the connection, before the request was read
    lost: bool = False  # the answer, after the work was done


class Hub:
    """The state, and what the tests say to it and read of it."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.asked: list[str] = []  # the kinds of requests, in order
        self.leaked: list[str] = []  # requests to the store that carried the token
        self.faults: list[Fault] = []
        self.url = ""
        self.lock = threading.RLock()

    def fail(self, kind: str, times: int = 1, **how: Any) -> None:
        self.faults.append(Fault(kind, times, **how))

    def take_fault(self, kind: str) -> Fault | None:
        with self.lock:
            fault = next((f for f in self.faults if f.kind == kind and f.times), None)
            if fault:
                fault.times -= 1
            return fault

    def make(self, name: str, private: bool = True) -> Repo:
        repo = self.repos[name] = Repo(private)
        repo.commit("initial commit", {".gitattributes": Blob(ATTRIBUTES)})
        return repo

    def counts(self) -> Counter[str]:
        """How many requests of each kind came since the last time."""
        asked, self.asked = self.asked, []
        return Counter(asked)

    @contextmanager
    def serve(self) -> Iterator[Hub]:
        handler = type("Bound", (Handler,), {"hub": self})
        server = Quiet(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients may be killed."""


ATTRIBUTES = b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"


@dataclass(frozen=True)
class Blob:
    """A file of a commit: its content, or the hash of what LFS holds."""

    content: bytes
    lfs: bool = False

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def oid(self) -> str:
        text = f"lfs {self.sha256}".encode() if self.lfs else self.content
        return hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest()

    def entry(self, path: str) -> dict[str, Any]:
        size = len(self.content)
        lfs = {"lfs": {"oid": self.sha256, "size": size, "pointerSize": 130}} if self.lfs else {}
        return {"type": "file", "path": path, "size": size, "oid": self.oid, **lfs}


@dataclass
class Repo:
    private: bool
    commits: list[tuple[str, str, dict[str, Blob]]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)  # of LFS, by SHA-256

    def commit(self, title: str, files: dict[str, Blob]) -> str:
        oid = hashlib.sha1(f"{len(self.commits)} {title}".encode()).hexdigest()
        self.commits.append((oid, title, files))
        return oid

    @property
    def head(self) -> str:
        return self.commits[-1][0]

    @property
    def titles(self) -> list[str]:
        return [title for _, title, _ in self.commits]

    def files(self, revision: str = "main") -> dict[str, Blob] | None:
        oid = self.head if revision == "main" else self.tags.get(revision, revision)
        return next((files for known, _, files in self.commits if known == oid), None)

    def contents(self, revision: str = "main") -> dict[str, bytes]:
        """All files but the Hub's own."""
        found = self.files(revision) or {}
        return {path: b.content for path, b in found.items() if path != ".gitattributes"}


TOKEN = "hf_loopbackTokenOfTheTests0123456789"


class Refused(Exception):
    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


ROUTES = [
    ("create", "POST", r"/api/repos/create"),
    ("validate", "POST", r"/api/validate-yaml"),
    ("refs", "GET", r"/api/datasets/(?P<repo>[^/]+/[^/]+)/refs"),
    ("info", "GET", r"/api/datasets/(?P<repo>[^/]+/[^/]+)(?:/revision/(?P<rev>[^/]+))?"),
    ("tree", "GET", r"/api/datasets/(?P<repo>[^/]+/[^/]+)/tree/(?P<rev>[^/]+)(?:/(?P<path>.*))?"),
    ("preupload", "POST", r"/api/datasets/(?P<repo>[^/]+/[^/]+)/preupload/(?P<rev>[^/]+)"),
    ("commit", "POST", r"/api/datasets/(?P<repo>[^/]+/[^/]+)/commit/(?P<rev>[^/]+)"),
    ("tag", "POST", r"/api/datasets/(?P<repo>[^/]+/[^/]+)/tag/(?P<rev>[^/]+)"),
    ("batch", "POST", r"/datasets/(?P<repo>[^/]+/[^/]+)\.git/info/lfs/objects/batch"),
    ("verify", "POST", r"/datasets/(?P<repo>[^/]+/[^/]+)\.git/info/lfs/objects/verify"),
    ("upload", "PUT", r"/store/(?P<repo>[^/]+/[^/]+)/(?P<oid>\w+)"),
    ("resolve", "GET", r"/datasets/(?P<repo>[^/]+/[^/]+)/resolve/(?P<rev>[^/]+)/(?P<path>.+)"),
]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *args: Any) -> None:
        """Nothing."""

    def _serve(self) -> None:
        method = self.command.replace("HEAD", "GET")
        path = urlsplit(self.path).path
        kind, named = f"unknown: {method} {path}", {}
        for name, verb, pattern in ROUTES:
            if verb == method and (found := re.fullmatch(pattern, path)):
                kind = name
                named = {key: unquote(value or "") for key, value in found.groupdict().items()}
        self.hub.asked.append(kind)
        fault = self.hub.take_fault(kind)
        if fault and fault.reset:
            return self._cut()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if fault and fault.status:
            return self._answer(fault.status, fault.body.encode(), fault.headers)
        try:
            with self.hub.lock:
                self._authorise(kind, named.get("repo", ""))
                status, answer, headers = getattr(self, f"_{kind}", self._unknown)(body, **named)
        except Refused as refused:
            headers = {"X-Error-Message": refused.message, "X-Error-Code": refused.code}
            status, answer = refused.status, {"error": refused.message}
        if fault and fault.lost:
            return self._cut()
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return self._answer(status, content, headers)

    do_GET = do_HEAD = do_POST = do_PUT = _serve

    def _cut(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _authorise(self, kind: str, repo: str) -> None:
        said = self.headers.get("Authorization")
        if kind == "upload":  # addresses of the store are signed, and nobody logs in there
            if said:
                self.hub.leaked.append(self.path)
            if "signature=" not in self.path:
                raise Refused(403, "Unsigned")
            return
        known = self.hub.repos.get(repo)
        open_to_all = self.command != "POST" and known is not None and not known.private
        if said != f"Bearer {TOKEN}" and (said or not open_to_all):
            raise Refused(401, "Invalid username or password.")

    def _repo(self, name: str) -> Repo:
        if name not in self.hub.repos:
            raise Refused(404, "Repository not found", "RepoNotFound")
        return self.hub.repos[name]

    def _files(self, repo: str, revision: str) -> dict[str, Blob]:
        files = self._repo(repo).files(revision)
        if files is None:
            raise Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return files

    def _unknown(self, body: bytes) -> Any:
        raise Refused(404, "Sorry, we can't find the page you are looking for.")

    def _create(self, body: bytes) -> Any:
        asked = json.loads(body)
        name = f"{asked['organization']}/{asked['name']}"
        if asked["organization"] != "me":
            raise Refused(403, f'You don\'t have the rights to create a dataset under "{name}"')
        url = f"{self.hub.url}/datasets/{name}"
        if name in self.hub.repos:
            return 409, {"error": "You already created this dataset repo", "url": url}, {}
        self.hub.make(name, private=asked.get("visibility") == "private")
        return 200, {"url": url, "name": name}, {}

    def _validate(self, body: bytes) -> Any:
        return 200, {"errors": [], "warnings": []}, {}

    def _info(self, body: bytes, repo: str, rev: str) -> Any:
        known, files = self._repo(repo), self._files(repo, rev or "main")
        listed = [{"rfilename": path} for path in files]
        sha = known.tags.get(rev, rev) if rev not in ("", "main") else known.head
        made = {"_id": "1", "id": repo, "sha": sha, "private": known.private, "tags": []}
        return 200, {**made, "siblings": listed, "downloads": 0, "likes": 0}, {}

    def _refs(self, body: bytes, repo: str) -> Any:
        known = self._repo(repo)
        main = {"name": "main", "ref": "refs/heads/main", "targetCommit": known.head}
        tags = [
            {"name": name, "ref": f"refs/tags/{name}", "targetCommit": oid}
            for name, oid in known.tags.items()
        ]
        return 200, {"branches": [main], "converts": [], "tags": tags}, {}

    def _tree(self, body: bytes, repo: str, rev: str, path: str) -> Any:
        query = parse_qs(urlsplit(self.path).query)
        entries = self._entries(self._files(repo, rev), path)
        if query.get("recursive", ["false"])[0].lower() != "true":
            under = len(path.split("/")) + 1 if path else 1
            entries = [e for e in entries if len(e["path"].split("/")) == under]
        return 200, entries, {}

    def _entries(self, files: dict[str, Blob], path: str) -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for name, blob in sorted(files.items()):
            parts = name.split("/")
            for end in range(1, len(parts)):
                folder = "/".join(parts[:end])
                oid = hashlib.sha1(folder.encode()).hexdigest()
                found[folder] = {"type": "directory", "path": folder, "size": 0, "oid": oid}
            found[name] = blob.entry(name)
        return [e for name, e in found.items() if not path or name.startswith(f"{path}/")]

    def _preupload(self, body: bytes, repo: str, rev: str) -> Any:
        files = self._files(repo, rev)
        hidden = files.get(".gitignore", Blob(b"")).content.decode().splitlines()
        made = []
        for path in (asked["path"] for asked in json.loads(body)["files"]):
            there = files.get(path)
            oid = there and (there.sha256 if there.lfs else there.oid)
            mode = "lfs" if path.endswith(".parquet") else "regular"
            ignored = path in hidden
            made.append({"path": path, "uploadMode": mode, "shouldIgnore": ignored, "oid": oid})
        return 200, {"files": made}, {}

    def _batch(self, body: bytes, repo: str) -> Any:
        known, made = self._repo(repo), []
        for asked in json.loads(body)["objects"]:
            one = {"oid": asked["oid"], "size": asked["size"]}
            if asked["oid"] not in known.blobs:
                href = f"{self.hub.url}/store/{repo}/{asked['oid']}?signature=s3cret"
                verify = f"{self.hub.url}/datasets/{repo}.git/info/lfs/objects/verify"
                one["actions"] = {"upload": {"href": href}, "verify": {"href": verify}}
            made.append(one)
        return 200, {"transfer": "basic", "objects": made}, {}

    def _upload(self, body: bytes, repo: str, oid: str) -> Any:
        if hashlib.sha256(body).hexdigest() != oid:
            raise Refused(400, "The content has another SHA-256")
        self._repo(repo).blobs[oid] = body
        return 200, b"", {"ETag": f'"{oid}"'}

    def _verify(self, body: bytes, repo: str) -> Any:
        asked = json.loads(body)
        if len(self._repo(repo).blobs.get(asked["oid"], b"")) != asked["size"]:
            raise Refused(404, "The object is not there")
        return 200, {}, {}

    def _commit(self, body: bytes, repo: str, rev: str) -> Any:
        known, files, title = self._repo(repo), dict(self._files(repo, rev)), ""
        for line in body.splitlines():
            item = json.loads(line)
            value = item["value"]
            match item["key"]:
                case "header":
                    title = value["summary"]
                    if value.get("parentCommit", known.head) != known.head:
                        raise Refused(412, "A commit has happened since. Please refresh.")
                case "file":
                    files[value["path"]] = Blob(base64.b64decode(value["content"]))
                case "lfsFile":
                    if value["oid"] not in known.blobs:
                        raise Refused(400, f"LFS pointer points to nothing: {value['path']}")
                    files[value["path"]] = Blob(known.blobs[value["oid"]], lfs=True)
                case "deletedFile":
                    del files[value["path"]]
        oid = known.commit(title, files)
        url = f"{self.hub.url}/datasets/{repo}/commit/{oid}"
        return 200, {"success": True, "commitOid": oid, "commitUrl": url, "hookOutput": ""}, {}

    def _tag(self, body: bytes, repo: str, rev: str) -> Any:
        known, tag = self._repo(repo), json.loads(body)["tag"]
        self._files(repo, rev)
        if tag in known.tags:
            raise Refused(409, f"Tag reference exists already: {tag}")
        known.tags[tag] = known.head if rev == "main" else rev
        return 200, {}, {}

    def _resolve(self, body: bytes, repo: str, rev: str, path: str) -> Any:
        known, files = self._repo(repo), self._files(repo, rev)
        oid = known.head if rev == "main" else known.tags.get(rev, rev)
        if path not in files:
            raise Refused(404, "Entry not found", "EntryNotFound")
        blob = files[path]
        headers = {
            "X-Repo-Commit": oid,
            "Content-Type": "application/octet-stream",
            "ETag": f'"{blob.sha256 if blob.lfs else blob.oid}"',
        }
        return 200, blob.content, headers
