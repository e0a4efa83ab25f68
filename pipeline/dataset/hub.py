"""Pushes a version to the Hugging Face Hub: one commit, then a tag with its number.

Whatever ended a push, the same command goes on with it: the library sends no file that the Hub has,
a commit that is there is only tagged, and a tag that is there ends it. What the Hub and the way to
it refuse becomes an error that says what to do, without the token and without addresses, which may
be signed.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from toolloom.pipeline.dataset.verify import look
from toolloom.pipeline.render.section import short
from toolloom.pipeline.store.version import Version
from toolloom.schemas import PushError, StoreError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

CONNECTING, ANSWERING = 15, 300  # seconds; a commit of many files takes the Hub minutes
HUBS_OWN = {".gitattributes"}  # what the Hub puts into a repository by itself
REPLACED = {*HUBS_OWN, "README.md"}  # all that a repository made by hand may hold
WORDS = 300  # letters of the Hub's own words
AGAIN = "Run the same command again: what was sent is not sent again."
TOKEN = "Log in with `hf auth login`, or set HF_TOKEN to a token with write access."


class Pushed(NamedTuple):
    """A version on the Hub, and what this push did of it."""

    url: str
    private: bool
    commit: str
    committed: bool
    tagged: bool
    load_line: str


def login() -> str:
    """The token: of HF_TOKEN, or what `hf auth login` has stored. Raises PushError."""
    from huggingface_hub import get_token
    from huggingface_hub.errors import OIDCError

    try:
        with translated("the Hub", ""):
            if token := get_token():
                return token
    except OIDCError as error:
        raise PushError("No token came of HF_OIDC_RESOURCE. Unset it, or mend it.") from error
    raise PushError(
        "There is no token for the Hub. Set HF_TOKEN to one with write access, "
        "or run `hf auth login`."
    )


def push(version: Version, repo: str, token: str, *, public: bool = False) -> Pushed:
    """Bring a version to `repo`, as far as it is not there. Raises PushError and StoreError."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined] # lazy there

    try:
        validate_repo_id(repo)
        if repo.count("/") != 1:
            raise HFValidationError(f"{repo}: is not the name of a repository.")
    except HFValidationError as error:
        raise PushError(f"{error} Write owner/name.") from error
    files = look(version.path)
    for fault in files.faults:
        raise StoreError(
            f"{version.path / fault.file}: {fault.detail}; {version.label} is damaged, and nothing "
            "was pushed. Bring the file back, or publish the dataset again."
        )
    with warnings.catch_warnings(action="ignore"), translated(repo, token):
        return _push(version, {*files.hashes}, repo, _api(token), public)


def _push(version: Version, names: set[str], repo: str, api: HfApi, public: bool) -> Pushed:
    # One that is there keeps its visibility.
    api.create_repo(repo, repo_type="dataset", private=not public, exist_ok=True)
    info = api.dataset_info(repo)
    refs = api.list_repo_refs(repo, repo_type="dataset")
    tagged = next((tag for tag in refs.tags if tag.name == version.number), None)
    head = tagged.target_commit if tagged else info.sha
    # The manifest has the hash of every other file: where it and the names are the same, all is.
    there = _manifest(api, repo, head)
    listed = {*api.list_repo_files(repo, revision=head, repo_type="dataset")}
    is_there = there == (version.path / "manifest.json").read_bytes() and listed - HUBS_OWN == names
    if tagged and not is_there:
        raise PushError(
            f"{repo} has a version {version.number} with other content, and versions "
            "never change. Push to another repository, or publish the dataset as a new version."
        )
    commit = head
    if not is_there:
        name = None
        with suppress(ValueError, AttributeError):  # anybody may have written it
            name = json.loads(there or b"{}").get("name")
        if not (listed <= REPLACED or name == version.name):
            holds = f"the dataset {name}" if name else "files that are not a version of a dataset"
            raise PushError(
                f"{repo} holds {holds}, which the push would delete. "
                f"Give {version.name} a repository of its own."
            )
        commit = api.upload_folder(
            repo_id=repo,
            repo_type="dataset",
            folder_path=version.path,
            delete_patterns="*",
            commit_message=version.label,
            parent_commit=head,  # if somebody else pushes meanwhile, one of both fails
        ).oid
        # Such as a file that a .gitignore of the repository kept out, which nobody tells.
        made = {*api.list_repo_files(repo, revision=commit, repo_type="dataset")}
        if made - HUBS_OWN != names:
            raise PushError(
                f"The commit {str(commit)[:12]} of {repo} is not what {version.label} is; "
                "it was not tagged. Run the same command again."
            )
    if not tagged:
        api.create_tag(repo, tag=version.number, revision=commit, repo_type="dataset")
    place = urlsplit(api.endpoint)
    endpoint = place._replace(netloc=place.netloc.rpartition("@")[2]).geturl()  # no password
    config, split = version.first
    return Pushed(
        url=f"{endpoint}/datasets/{repo}",
        private=bool(info.private),
        commit=str(commit),
        committed=commit != head,
        tagged=not tagged,
        load_line=f'datasets.load_dataset("{repo}", "{config}", split="{split}", '
        f'revision="{version.number}")',
    )


def _manifest(api: HfApi, repo: str, revision: str | None) -> bytes | None:
    """The manifest.json of a revision; None if it has none."""
    from huggingface_hub import get_session, hf_hub_url

    asked = {"repo_type": "dataset", "revision": revision, "endpoint": api.endpoint}
    where = hf_hub_url(repo, "manifest.json", **asked)
    answer = get_session().get(where, headers={"Authorization": f"Bearer {api.token}"})
    if answer.status_code == 404:
        return None
    answer.raise_for_status()
    return bytes(answer.content)


def _api(token: str) -> HfApi:
    """The Hub, which is not waited for without end. Raises PushError."""
    import httpx2
    from huggingface_hub import HfApi, constants, is_offline_mode, set_client_factory

    if is_offline_mode():
        raise PushError("HF_HUB_OFFLINE is set, so nothing can be pushed. Unset it.")
    patience = httpx2.Timeout(ANSWERING, connect=CONNECTING).as_dict()
    # Its lines and warnings repeat signed addresses.
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    # By xet a folder becomes several commits; by LFS it is one, whose files' SHA-256 are checked.
    constants.HF_HUB_DISABLE_XET = True
    # The library's calls say that they wait without end.
    hooks: Any = {"request": [lambda request: request.extensions.update(timeout=patience)]}
    set_client_factory(lambda: httpx2.Client(event_hooks=hooks, follow_redirects=True))
    return HfApi(token=token, library_name="toolloom")


@contextmanager
def translated(repo: str, token: str) -> Iterator[None]:
    """Raises PushError for what huggingface_hub and its HTTP client raise."""
    import httpx2

    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, KeyError) as error:
        raise PushError(_told(error, repo, token)) from error
    except RuntimeError as error:  # of a file's upload, around what happened
        if not isinstance(error.__cause__, httpx2.HTTPError | OSError | ValueError):
            raise
        raise PushError(_told(error.__cause__, repo, token)) from error


def _told(error: BaseException, repo: str, token: str) -> str:
    import httpx2

    if (response := getattr(error, "response", None)) is not None:
        words = _hidden(str(getattr(error, "server_message", None) or ""), token)
        said = f" ({words})" if words else ""
        wait, status = response.headers.get("Retry-After", ""), response.status_code
        when = f"; it asks to wait {wait} seconds" if wait.isdigit() else ""
        known = {
            401: f"The Hub does not accept the token{said}. {TOKEN}",
            403: f"The token may not write to {repo}{said}. Use one that may.",
            404: f"The Hub has no {repo} that this token may see{said}. Check its name.",
            **dict.fromkeys((409, 412), f"{repo} was changed at the same time{said}. {AGAIN}"),
        }
        return known.get(status, f"The Hub answered {status}{said}{when}. {AGAIN}")
    match error:
        case httpx2.InvalidURL() | httpx2.UnsupportedProtocol():
            return (
                "HF_ENDPOINT is not an address. Write it like https://huggingface.co, or unset it."
            )
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            why = _hidden(str(error), token) or "no answer"
            return f"The Hub cannot be reached ({why}). Check the network and HF_ENDPOINT. {AGAIN}"
        case httpx2.LocalProtocolError() | UnicodeEncodeError():
            return f"The token has characters that no token has. {TOKEN}"
        case httpx2.TimeoutException():
            return f"The Hub did not answer in time. {AGAIN}"
        case httpx2.HTTPError() | ConnectionError():
            return f"The connection to the Hub broke ({type(error).__name__}). {AGAIN}"
        case OSError(filename=name, strerror=why) if name or why:
            return f"{name or repo}: cannot be read ({why or 'failed'}). {AGAIN}"
        case json.JSONDecodeError() | KeyError():
            return "What answers is no Hub, or a broken one. Check HF_ENDPOINT."
    return f"The Hub does not take it: {_hidden(str(error), token)}."


def _hidden(words: str, token: str) -> str:
    return short(words.replace(token, "[key]") if token else words, WORDS).rstrip(".")
