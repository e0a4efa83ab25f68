"""Pushes a version to the Hugging Face Hub: one commit, then a tag with its number.

The version's files are compared with their hashes first. What the Hub and the way to it can refuse
becomes an error that says what to do; nothing of a request is repeated in it, as its headers hold
the token and its address may be signed.

Whatever ended a push, the same command goes on with it: what the Hub has is asked first, and only
what is missing is sent. Files go by the LFS protocol and not by xet, although huggingface_hub has
both: an LFS server checks the very SHA-256 that the manifest names, mirrors behind HF_ENDPOINT
speak it, and it can be tested whole on this machine. Xet's gain, that equal parts of files are
sent once, is small here: splits that did not change are equal files, which LFS sends once too.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from toolloom.pipeline.dataset.verify_files import look
from toolloom.pipeline.store.files import explain
from toolloom.pipeline.store.version import Version
from toolloom.schemas import PushError, StoreError, ToolloomError

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile


CONNECTING, ANSWERING = 15, 300  # seconds; a commit of many files takes the Hub minutes
HUBS_OWN = {".gitattributes"}  # what the Hub puts into a repository by itself
REPLACED = {*HUBS_OWN, "README.md"}  # all that a repository made by hand may hold
WORDS = 300  # letters of the Hub's own words
AGAIN = "Run the same command again: what was sent is not sent again."
TOKEN = "Log in with `hf auth login`, or set HF_TOKEN to a token with write access."


@dataclass(frozen=True)
class Pushed:
    """A version on the Hub, and what it took to bring it there."""

    repo: str
    number: str
    url: str
    private: bool
    commit: str
    committed: bool  # by this push
    tagged: bool  # by this push
    files: int
    sent: int
    sent_bytes: int
    deleted: int
    load_line: str


def login() -> str:
    """The token: of HF_TOKEN, or what `hf auth login` has stored. Raises PushError."""
    from huggingface_hub import get_token
    from huggingface_hub.errors import OIDCError

    with translated("the Hub", ""):
        try:
            token = get_token()
        except OIDCError as error:
            raise PushError("No token came of HF_OIDC_RESOURCE. Unset it, or mend it.") from error
    if not token:
        raise PushError(
            "There is no token for the Hub. Set HF_TOKEN to one with write access, "
            "or run `hf auth login`."
        )
    return token


def push(
    version: Version, repo: str, token: str, *, public: bool = False, load: Load | None = None
) -> Pushed:
    """Bring a version to `repo`, as far as it is not there. Raises PushError and StoreError."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined] # lazy there

    if repo.count("/") != 1:
        raise PushError(f"{repo}: is no name of a repository. Write owner/name.")
    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise PushError(f"{error} Write owner/name.") from error
    with ExitStack() as opened:
        # Read before anything is sent: a damaged version is not pushed.
        files = list(_open_files(version, opened))
        opened.enter_context(_quiet())
        opened.enter_context(translated(repo, token))
        return _Push(version, repo, _api(token), files, load or Load()).run(public)


@dataclass
class _Push:
    version: Version
    repo: str
    api: HfApi
    files: list[PushedFile]
    load: Load

    def run(self, public: bool) -> Pushed:
        info = self._repository(public)
        tagged = self._tagged()
        commit, deleted = tagged, 0
        if tagged is None:
            commit, deleted = self._commit(info.sha)
            self.api.create_tag(
                self.repo, tag=self.version.number, revision=commit, repo_type="dataset"
            )
        place = urlsplit(self.api.endpoint)
        endpoint = place._replace(netloc=place.netloc.rpartition("@")[2]).geturl()  # no password
        config, split = self.version.first
        return Pushed(
            repo=self.repo,
            number=self.version.number,
            url=f"{endpoint}/datasets/{self.repo}",
            private=bool(info.private),
            commit=str(commit),
            committed=commit not in (tagged, info.sha),
            tagged=tagged is None,
            files=len(self.files),
            sent=self.load.sent,
            sent_bytes=self.load.sent_bytes,
            deleted=deleted,
            load_line=f'datasets.load_dataset("{self.repo}", "{config}", split="{split}", '
            f'revision="{self.version.number}")',
        )

    def _repository(self, public: bool) -> Any:
        """What the Hub says of the repository, made if there is none."""
        from huggingface_hub.errors import RepositoryNotFoundError

        try:
            return self.api.dataset_info(self.repo)
        except RepositoryNotFoundError as error:
            if error.response.status_code != 404:
                raise
        # One that came between keeps its visibility: it is read once more.
        self.api.create_repo(self.repo, repo_type="dataset", private=not public, exist_ok=True)
        return self.api.dataset_info(self.repo)

    def _tagged(self) -> str | None:
        """The commit that is tagged as this version. Raises PushError if it is another."""
        refs = self.api.list_repo_refs(self.repo, repo_type="dataset")
        found = [tag.target_commit for tag in refs.tags if tag.name == self.version.number]
        if not found:
            return None
        if self._same(self._tree(self.version.number)):
            return str(found[0])
        raise PushError(
            f"{self.repo} has a version {self.version.number} with other content, and versions "
            "never change. Push to another repository, or publish the dataset as a new version."
        )

    def _commit(self, head: str | None) -> tuple[str, int]:
        """Make the head equal to the version, in one commit; its id, and how many files went."""
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        there = self._tree(head) if head else {}
        if head and self._same(there):  # a push ended between commit and tag
            return head, 0
        self._check_owner(there, head)
        fresh = [file for file in self.files if not _equal(file, there.get(file.name))]
        gone = sorted(there.keys() - {file.name for file in self.files} - HUBS_OWN)
        operations: list[CommitOperationAdd | CommitOperationDelete] = [
            *(CommitOperationAdd(file.name, file.reader) for file in fresh),
            *(CommitOperationDelete(name, is_folder=False) for name in gone),
        ]
        self.load.begin(fresh)
        made = self.api.create_commit(
            self.repo,
            operations,
            commit_message=self.version.label,
            repo_type="dataset",
            parent_commit=head,  # if somebody else pushes meanwhile, one of both fails
        )
        # Such as a file that a .gitignore of the repository kept out, which nobody tells.
        if not self._same(self._tree(made.oid)):
            raise PushError(
                f"The commit {made.oid[:12]} of {self.repo} is not what {self.version.label} is; "
                "it was not tagged. Run the same command again."
            )
        return str(made.oid), len(gone)

    def _tree(self, revision: str) -> dict[str, RepoFile]:
        from huggingface_hub.hf_api import RepoFile

        listed = self.api.list_repo_tree(
            self.repo, recursive=True, revision=revision, repo_type="dataset"
        )
        return {entry.path: entry for entry in listed if isinstance(entry, RepoFile)}

    def _same(self, there: dict[str, RepoFile]) -> bool:
        names = {file.name for file in self.files}
        return there.keys() - HUBS_OWN == names - HUBS_OWN and all(
            _equal(file, there.get(file.name)) for file in self.files
        )

    def _check_owner(self, there: dict[str, RepoFile], head: str | None) -> None:
        """Raises PushError if a commit would delete what is no version of this dataset."""
        name = self._dataset(head) if "manifest.json" in there else None
        if there.keys() <= REPLACED or name == self.version.name:
            return
        holds = f"the dataset {name}" if name else "files that are no version of a dataset"
        raise PushError(
            f"{self.repo} holds {holds}, which the push would delete. "
            f"Give {self.version.name} a repository of its own."
        )

    def _dataset(self, revision: str | None) -> str | None:
        """The name of the dataset that a revision of the repository holds."""
        from huggingface_hub import get_session, hf_hub_url

        asked = {"repo_type": "dataset", "revision": revision, "endpoint": self.api.endpoint}
        where = hf_hub_url(self.repo, "manifest.json", **asked)
        answer = get_session().get(where, headers={"Authorization": f"Bearer {self.api.token}"})
        answer.raise_for_status()
        try:
            manifest = json.loads(answer.content)
        except ValueError:
            return None
        name = manifest.get("name") if isinstance(manifest, dict) else None
        return name if isinstance(name, str) else None


def _equal(file: PushedFile, there: RepoFile | None) -> bool:
    """Whether the repository's file has the same content."""
    if there is None or there.size != file.size:
        return False
    return there.lfs.sha256 == file.sha256 if there.lfs else there.blob_id == file.git_id()


def _api(token: str) -> HfApi:
    """The Hub, which is not waited for without end. Raises PushError."""
    import httpx2
    from huggingface_hub import HfApi, is_offline_mode, set_client_factory
    from huggingface_hub.errors import OfflineModeIsEnabled

    if is_offline_mode():
        raise PushError("HF_HUB_OFFLINE is set, so nothing can be pushed. Unset it.")
    patience = httpx2.Timeout(ANSWERING, connect=CONNECTING).as_dict()

    def before(request: httpx2.Request) -> None:
        if is_offline_mode():  # the library's own hook, which this one replaces
            raise OfflineModeIsEnabled("HF_HUB_OFFLINE is set")
        request.extensions["timeout"] = patience  # the library's calls say: none

    hooks: Any = {"request": [before]}
    set_client_factory(lambda: httpx2.Client(event_hooks=hooks, follow_redirects=True))
    return HfApi(token=token, library_name="toolloom")


@contextmanager
def _quiet() -> Iterator[None]:
    """The library's bars and lines are off; its lines repeat signed addresses."""
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined] # lazy

    told = logging.getLogger("huggingface_hub")
    before, told.level = told.level, logging.CRITICAL
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            disable_progress_bars()
            yield
    finally:
        told.level = before


class FileReader(io.BufferedReader):
    """A file that knows how much of it was read."""

    done = 0

    def read(self, size: int | None = -1, /) -> bytes:
        got = super().read(size)
        self.done = max(self.done, self.tell())
        return got


@dataclass(frozen=True)
class PushedFile:
    """A file of the version, which has the hash that the manifest says."""

    name: str  # its path in the version and in the repository
    reader: FileReader
    size: int
    sha256: str

    def git_id(self) -> str:
        """The id git gives to a file that is not in LFS."""
        content = self.reader.read()
        self.reader.seek(0)
        head = b"blob %d\0" % len(content)
        return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


@dataclass
class Load:
    """What is under way, for whoever watches."""

    files: list[PushedFile] = field(default_factory=list)

    def begin(self, files: list[PushedFile]) -> None:
        for file in files:
            file.reader.done = 0  # a small one was read for its git hash
        self.files = files

    @property
    def sent(self) -> int:
        return sum(file.reader.done == file.size for file in self.files)

    @property
    def sent_bytes(self) -> int:
        return sum(file.reader.done for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


def _open_files(version: Version, opened: ExitStack) -> Iterator[PushedFile]:
    """The version's files. Raises StoreError if verification finds that one is damaged."""
    files = look(version.path)
    for fault in files.faults:
        raise StoreError(
            f"{version.path / fault.file}: {fault.detail}; {version.label} is damaged, and nothing "
            "was pushed. Bring the file back, or publish the dataset again."
        )
    for name, sha256 in sorted(files.hashes.items()):
        try:
            reader = opened.enter_context(FileReader(io.FileIO(version.path / name)))
            # Once more, of what is sent: the file may have been exchanged since it was looked at.
            if hashlib.file_digest(reader, "sha256").hexdigest() != sha256:
                raise StoreError(f"{version.path / name}: changes while it is read; try again.")
            reader.seek(0)
        except OSError as error:
            raise explain(version.path / name, error, "read") from error
        yield PushedFile(name, reader, files.sizes[name], sha256)


@contextmanager
def translated(repo: str, token: str) -> Iterator[None]:
    """Raises PushError for what huggingface_hub and its HTTP client raise."""
    import httpx2

    try:
        yield
    except ToolloomError:
        raise
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, KeyError) as error:
        raise PushError(_told(error, repo, token)) from error
    except RuntimeError as error:  # of a file's upload, around what happened
        if not isinstance(error.__cause__, httpx2.HTTPError | OSError | ValueError):
            raise
        raise PushError(_told(error.__cause__, repo, token)) from error


def _told(error: BaseException, repo: str, token: str) -> str:
    import httpx2

    response = getattr(error, "response", None)
    if response is not None:
        words = _hidden(str(getattr(error, "server_message", None) or ""), token)
        status = response.status_code
        said = f" ({words})" if words else ""
        wait = response.headers.get("Retry-After", "")
        when = f"in {wait} seconds" if wait.isdigit() else "later"
        changed = f"{repo} was changed at the same time{said}. {AGAIN}"
        messages = {
            401: f"The Hub does not accept the token{said}. {TOKEN}",
            403: f"The token may not write to {repo}{said}. Use one with write access to "
            f"{repo.partition('/')[0]}, or another repository.",
            404: f"The Hub has no {repo} that this token may see{said}. Check its name.",
            409: changed,
            412: changed,
            429: f"The Hub has had too many requests{said}. Try again {when}. {AGAIN}",
        }
        return messages.get(status, f"The Hub answered {status}{said}. {AGAIN}")
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return "HF_ENDPOINT is no address. Write it like https://huggingface.co, or unset it."
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        why = _hidden(str(error), token) or "no answer"
        return f"The Hub cannot be reached ({why}). Check the network and HF_ENDPOINT. {AGAIN}"
    if isinstance(error, httpx2.LocalProtocolError | UnicodeEncodeError):
        return f"The token has characters that no token has. {TOKEN}"
    if isinstance(error, httpx2.TimeoutException):
        return f"The Hub did not answer in time. {AGAIN}"
    if isinstance(error, httpx2.HTTPError | ConnectionError):
        return f"The connection to the Hub broke ({type(error).__name__}). {AGAIN}"
    if isinstance(error, OSError):
        return f"{error.filename or repo}: cannot be read ({error.strerror or 'failed'}). {AGAIN}"
    if isinstance(error, json.JSONDecodeError | KeyError):
        return "What answers is no Hub, or a broken one. Check HF_ENDPOINT."
    return f"The Hub does not take it: {_hidden(str(error), token)}."


def _hidden(words: str, token: str) -> str:
    if token:
        words = words.replace(token, "[key]")
    line = " ".join(words.split()).rstrip(".")
    return line if len(line) <= WORDS else f"{line[:WORDS]}…"
