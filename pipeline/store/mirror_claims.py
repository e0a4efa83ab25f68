"""Keeps two machines that publish at once from bringing files of one version to the store."""

from __future__ import annotations

import filecmp
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from toolloom.pipeline.store.remote import Remote
from toolloom.schemas import StoreError

CLAIM = ".claim"  # in the version's folder in the store


@contextmanager
def claimed(remote: Remote, dataset: str, manifest: Path, mine: Collection[str]) -> Iterator[None]:
    """Hold a version's number in the store, while its files (`mine`) are brought there.

    The claim is the manifest under another name, so who goes on with a publication that was killed
    finds its own. What others have left under the number is removed. Raises StoreError.
    """
    version = f"{dataset}/{manifest.parent.name}"
    claim = f"{version}/{CLAIM}"
    if not remote.give(manifest, claim, new=True) and not _is_like(remote, claim, manifest):
        raise StoreError(
            f"{remote.url}/{version}: another machine is publishing it. Wait for it to end and run "
            "the same command again. If it was killed, run its recipe again, on any machine, or "
            f"remove {CLAIM} there."
        )
    if remote.seen(f"{version}/manifest.json"):  # it came before the claim did
        remote.remove([claim])
        raise taken(remote, f"{version}/manifest.json")
    there = {f"{manifest.parent.name}/{name}" for name in remote.files(version)}
    if left := there - set(mine):
        remote.remove(f"{dataset}/{name}" for name in left)
    yield
    remote.remove([claim])  # after an error it stays, for who goes on


def taken(remote: Remote, name: str) -> StoreError:
    return StoreError(
        f"{remote.url}/{name}: is there already: another machine was quicker. Run the same command "
        "again to go on from what is there."
    )


def _is_like(remote: Remote, name: str, path: Path) -> bool:
    copy = path.with_name(f"{CLAIM}.tmp")
    try:
        remote.take(name, copy)
        return filecmp.cmp(path, copy, shallow=False)
    finally:
        copy.unlink(missing_ok=True)
