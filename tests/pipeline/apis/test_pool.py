import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import api_pools

from toolloom.pipeline.apis.pool import PoolFolder, find_pool, open_pool
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import Api, ImportFailed, ImportReport, NothingFound, Source, StoreError


def api(name: str, reference: str = "shop.yaml", **changes: Any) -> Api:
    source = Source(kind="openapi", reference=reference)
    fields = {"category": "Trade", "tool": "Shop", "source": source, **changes}
    return api_pools.api(name, **fields)


def bring(pool: PoolFolder, *items: Api, source: str = "shop.yaml") -> ImportReport:
    """Import as importers do: the ledger gives the names."""
    ledger = ImportLog(source, "openapi")

    def read() -> Iterator[Api]:
        for item in items:
            ledger.read += 1
            name = ledger.function(item.source.operation or item.function, item.id)
            yield item.model_copy(update={"function": name})

    return pool.add(read(), ledger)


def names(pool: PoolFolder) -> list[str]:
    return [one.function for one in pool.apis()]


@pytest.fixture
def pool(tmp_path: Path) -> PoolFolder:
    return open_pool(tmp_path, "mine")


def test_importing_again_changes_no_byte(pool: PoolFolder) -> None:
    """The same source gives the same pool, whatever it holds besides."""
    first, second = (api("buy"), api("sell")), (api("buy", "other.yaml"), api("lend", "other.yaml"))
    bring(pool, *first)
    bring(pool, *second, source="other.yaml")
    before = (pool.path / "apis.jsonl").read_bytes()
    reports = bring(pool, *first), bring(pool, *second, source="other.yaml")
    assert (pool.path / "apis.jsonl").read_bytes() == before
    assert [report.replaced for report in reports] == [2, 2]
    assert len(list(pool.reports())) == 4


def test_an_api_keeps_its_function_name(pool: PoolFolder) -> None:
    """A newer description takes the line of the older one; a name that the source now gives to
    another API stays with the one that had it too."""
    bring(pool, api("buy"), api("sell"))
    bring(pool, api("lend"), api("buy", description="Buys."))
    assert list(pool.apis()) == [api("buy", description="Buys."), api("sell"), api("lend")]
    bring(pool, api("buy v2", function="buy"), api("buy"))
    assert names(pool) == ["buy", "sell", "lend", "buy"]


def test_ids_of_another_source_are_told_apart(pool: PoolFolder) -> None:
    """They are unique in a pool; functions have the names that their owner gave them."""
    bring(pool, api("buy"), api("GET_pets_id"))
    source = Source(kind="openapi", reference="other.yaml", operation="GET /pets/{id}")
    report = bring(pool, api("buy", "other.yaml"), api("x", source=source), source="other.yaml")
    assert names(pool) == ["buy", "GET_pets_id", "buy", "GET_pets_id"]
    assert [one.id for one in pool.apis()][2:] == ["Trade/Shop (2)/buy", "Trade/Shop/x"]
    booked = [(line.old, line.new, line.why) for line in report.renamed]
    assert booked == [("GET /pets/{id}", "GET_pets_id", "illegal")]
    assert "Shop (2)" in report.notes[0]
    assert report.replaced == 0


def test_an_id_that_stands_twice_in_a_source_is_kept_twice(pool: PoolFolder) -> None:
    """Also when it is imported again."""
    twice = [api("buy"), api("buy", description="Buys more.")]
    bring(pool, *twice)
    before = list(pool.apis())
    assert bring(pool, *twice).replaced == 2
    assert list(pool.apis()) == before
    assert [one.tool for one in pool.apis()] == ["Shop", "Shop (2)"]


def test_an_api_that_its_source_has_no_more_stays_with_a_note(pool: PoolFolder) -> None:
    """An import removes nothing."""
    bring(pool, api("buy"), api("sell"))
    (note,) = bring(pool, api("sell")).notes
    assert names(pool) == ["buy", "sell"]
    assert note == "Not in it this time, and kept: 1 API that the pool has from shop.yaml."


def files(pool: PoolFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in pool.path.iterdir()}


@pytest.mark.parametrize("error", [ImportFailed("no"), KeyboardInterrupt(), KeyError("a bug")])
def test_a_failure_in_the_middle_changes_nothing(pool: PoolFolder, error: BaseException) -> None:
    """Whatever an importer raises, the pool is as it was."""
    bring(pool, api("buy"))
    before = files(pool)

    def broken() -> Iterator[Api]:
        yield api("sell")
        raise error

    with pytest.raises(type(error)):
        pool.add(broken(), ImportLog("shop.yaml"))
    assert files(pool) == before


LIMITED = """
import resource, sys
from pathlib import Path
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.apis.pool import PoolFolder
from toolloom.schemas import Api, StoreError
pool = PoolFolder(Path(sys.argv[1]))
size = (pool.path / "apis.jsonl").stat().st_size + 10
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
known = next(pool.apis())
one = known.model_copy(update={"name": "sell", "function": "sell"})
try:
    pool.add([one], ImportLog("shop.yaml"))
except StoreError as error:
    print(error)
"""


def test_a_full_disk_changes_nothing(pool: PoolFolder) -> None:
    """No room for the pool with what is read: a plain error, and the old pool."""
    bring(pool, api("buy", description="x" * 900))
    before = files(pool)
    command = [sys.executable, "-c", LIMITED, str(pool.path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot be written (File too large). Make room" in ran.stdout
    assert files(pool) == before


def test_two_imports_at_once_are_refused(pool: PoolFolder) -> None:
    """The second one is told to wait, and changes nothing."""
    bring(pool, api("buy"))
    with pool.locked(), pytest.raises(StoreError, match="another process is changing this pool"):
        bring(pool, api("sell"))
    bring(pool, api("sell"))
    assert names(pool) == ["buy", "sell"]


EDITED = (
    {"parameters": {"properties": []}},
    {"parameters": {"properties": {"a": 5}}},
    {"parameters": {"required": "abc"}},
    {"returns": {"properties": 3}},
)
DAMAGED = [b"{", b"\n", b"[]\n", b'{"name": "buy"}\n', b"\xff\n", b"[" * 99_999, b"nonsense"]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        *((file, line) for file in ("apis.jsonl", "imports.jsonl") for line in DAMAGED),
        *(("apis.jsonl", api("buy", **each).model_dump_json().encode()) for each in EDITED),
    ],
)
def test_a_damaged_line_is_named(pool: PoolFolder, file: str, line: bytes) -> None:
    """Reading and importing say which line it is, and leave the files alone."""
    bring(pool, api("buy"))
    with (pool.path / file).open("ab") as lines:
        lines.write(line)
    before = files(pool)
    read = pool.apis if file == "apis.jsonl" else pool.reports
    for work in (lambda: list(read()), lambda: bring(pool, api("sell"))):
        with pytest.raises(StoreError, match=rf"{file}, line 2: is damaged"):
            work()
    assert files(pool) == before


def test_hostile_text_is_data(pool: PoolFolder) -> None:
    """Names are never paths, and text that JSON or a terminal minds comes back as it was."""
    evil = api("../../etc/passwd\0\n\u2028", category="/", tool="\x1b[2J", function="evil")
    strange = evil.model_copy(update={"parameters": {"default": "\ud800", "n": 10**30}})
    bring(pool, strange)
    assert list(pool.apis()) == [strange]
    assert sorted(path.name for path in pool.path.iterdir()) == [
        ".lock", "apis.jsonl", "imports.jsonl",
    ]  # fmt: skip


def test_a_pool_is_found_by_name_or_path(tmp_path: Path, pool: PoolFolder) -> None:
    """Whatever people type; the nearest name is suggested, without any pool how to make one."""
    with pytest.raises(NothingFound, match="apis import"):
        find_pool(tmp_path, "mien")
    bring(pool, api("buy"))
    elsewhere = open_pool(tmp_path, f"{tmp_path}/elsewhere")
    bring(elsewhere, api("sell"))
    assert find_pool(tmp_path, str(elsewhere.path)).path == elsewhere.path
    for name in ("mine", f"{tmp_path}/pools/mine"):
        assert find_pool(tmp_path, name).path == pool.path
    with pytest.raises(NothingFound, match=r"did you mean `mine`\?"):
        find_pool(tmp_path, "mien")


@pytest.mark.parametrize("name", ["other", "", "..", "../pools", "a\0b", "x" * 5000, "*", "/"])
def test_a_pool_that_is_not_there_is_named(tmp_path: Path, pool: PoolFolder, name: str) -> None:
    """What is not found is an error that lists what there is."""
    bring(pool, api("buy"))
    with pytest.raises(NothingFound, match=r"known are: mine|There is no pool"):
        find_pool(tmp_path, name)


@pytest.mark.parametrize("name", ["", ".hidden", "a b", "x" * 65, "a\0b", "ä"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    """A pool's name is a plain folder name."""
    with pytest.raises(StoreError, match="cannot be the name of a pool"):
        open_pool(tmp_path, name)
