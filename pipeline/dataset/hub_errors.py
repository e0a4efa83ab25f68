"""What the Hub and the way to it can refuse, as errors that say what to do.

Nothing of a request is repeated: its headers hold the token, and its address may be signed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from toolloom.schemas import PushError, ToolloomError

WORDS = 300  # letters of the Hub's own words
AGAIN = "Run the same command again: what was sent is not sent again."
TOKEN = "Log in with `hf auth login`, or set HF_TOKEN to a token with write access."


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
        return _answered(response, _words(error, token), repo)
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return "HF_ENDPOINT is no address. Write it like https://huggingface.co, or unset it."
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        why = _hidden(str(error), token) or "no answer"
        return f"The Hub cannot be reached ({why}). Check the network and HF_ENDPOINT. {AGAIN}"
    if isinstance(error, httpx2.LocalProtocolError):
        return f"The token has characters that no token has. {TOKEN}"
    if isinstance(error, httpx2.TimeoutException):
        return f"The Hub did not answer in time. {AGAIN}"
    if isinstance(error, httpx2.HTTPError | ConnectionError):
        return f"The connection to the Hub broke ({type(error).__name__}). {AGAIN}"
    if isinstance(error, OSError):
        return f"{error.filename or repo}: cannot be read ({error.strerror or 'failed'}). {AGAIN}"
    if isinstance(error, UnicodeEncodeError):
        return f"The token has characters that no token has. {TOKEN}"
    if isinstance(error, json.JSONDecodeError | KeyError):
        return "What answers is no Hub, or a broken one. Check HF_ENDPOINT."
    return f"The Hub does not take it: {_hidden(str(error), token)}."


def _answered(response: Any, words: str, repo: str) -> str:
    status = response.status_code
    said = f" ({words})" if words else ""
    match status:
        case 401:
            return f"The Hub does not accept the token{said}. {TOKEN}"
        case 403:
            return (
                f"The token may not write to {repo}{said}. "
                f"Use one with write access to {repo.partition('/')[0]}, or another repository."
            )
        case 404:
            return f"The Hub has no {repo} that this token may see{said}. Check its name."
        case 409 | 412:
            return f"{repo} was changed at the same time{said}. {AGAIN}"
        case 429:
            wait = response.headers.get("Retry-After", "")
            when = f"in {wait} seconds" if wait.isdigit() else "later"
            return f"The Hub has had too many requests{said}. Try again {when}. {AGAIN}"
        case _:
            return f"The Hub answered {status}{said}. {AGAIN}"


def _words(error: BaseException, token: str) -> str:
    """What the Hub itself says, in one line."""
    return _hidden(str(getattr(error, "server_message", None) or ""), token)


def _hidden(words: str, token: str) -> str:
    if token:
        words = words.replace(token, "[key]")
    line = " ".join(words.split()).rstrip(".")
    return line if len(line) <= WORDS else f"{line[:WORDS]}…"
