"""Sessions: fresh state for each sample, and nothing executed twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from support import shelf, toys
from support.conversations import called
from support.shelf import tool

from toolloom.llm.cache import Cache
from toolloom.pipeline.environments import executed as sessions
from toolloom.pipeline.environments.environment import Executed
from toolloom.pipeline.environments.executed import Executions, Session, replay
from toolloom.schemas import (
    Api,
    ApiSource,
    Dialogue,
    Execution,
    Failure,
    Message,
    Reason,
    Source,
    ToolloomError,
)

MakeSource: TypeAlias = Callable[..., ApiSource]
Starts: TypeAlias = Callable[[], int]
Call: TypeAlias = tuple[Api, dict[str, Any]]

CODE = """
import os, random, time
if name := os.environ.get("STARTS"):
    with open(name, "a") as file:
        file.write("line\\n")
total = 0
def put(number):
    global total
    total += number
    return total
def roll():
    return random.random()
def fail():
    raise ValueError("no sum")
def wait():
    time.sleep(60)
def leave():
    os._exit(1)
"""


@pytest.fixture
async def cache(tmp_path: Path) -> AsyncIterator[Cache]:
    opened = Cache(tmp_path / "cache.sqlite")
    yield opened
    await opened.close()


@pytest.fixture
def sums(tmp_path: Path) -> MakeSource:
    file = tmp_path / "sums.py"
    file.write_text(CODE)

    def make(**changes: Any) -> ApiSource:
        fields = {
            "path": str(file),
            "execute": ("put", "roll", "fail", "wait", "leave"),
            "time_limit": 5,
        }
        return ApiSource(**{**fields, **changes})

    return make


def put(number: Any) -> Call:
    """A call that adds to the sum of `sums`."""
    return tool("put", reference="sums.py"), {"number": number}


async def run(executions: Executions, *calls: Call, sample: str = "s1") -> list[Executed]:
    """What comes of a sample's calls, one after the other."""
    async with Session(executions, sample) as session:
        return [await session.run(*call) for call in calls]


def responses(executions: Iterable[Executed]) -> list[Any]:
    return [each.observation.response for each in executions]


ADD, OS_ADD = ("add",), ("add", "add_2", "os.add")


def of(operation: str) -> Source:
    return Source(kind="mcp", reference="shelf", operation=operation)


@pytest.mark.parametrize(
    ("execute", "name", "changes", "runs"),
    [
        pytest.param(ADD, "add", {}, True, id="named"),
        pytest.param(ADD, "add", {"function": "add_2"}, True, id="its name in the pool differs"),
        pytest.param(ADD, "count", {}, False, id="not named"),
        pytest.param(ADD, "add", {"reference": "another"}, False, id="of another source"),
        pytest.param((), "add", {}, False, id="nothing is named"),
        # A pool of anyone's pairs names and operations as it likes.
        pytest.param(OS_ADD, "count", {"function": "add"}, False, id="poses as a function"),
        pytest.param(OS_ADD, "add", {"source": of("count")}, False, id="poses by its name"),
        pytest.param(OS_ADD, "add_count", {"function": "add_2"}, False, id="poses as made unique"),
        pytest.param(
            OS_ADD, "os.add", {"source": of("os.remove")}, False, id="poses as a module's"
        ),
        *(
            pytest.param(
                (execute,),
                "shelf.files.read",
                {"function": "files_read_2", "source": of("files.read")},
                execute != "read",
                id=f"written {execute}",
            )
            for execute in ("files.read", "files_read", "files_read_2", "shelf.files.read", "read")
        ),
    ],
)
async def test_only_what_the_recipe_names_is_executed(
    execute: tuple[str, ...], name: str, changes: dict[str, Any], runs: bool
) -> None:
    """Opt-in by source and by name: an operation's own, as it is, legal, unique or of its module."""
    executions, api = Executions([shelf.source(execute=execute)], None, 0), tool(name, **changes)
    async with Session(executions, "s1") as session:
        assert session.runs(api) is runs
        assert session.runs(tool("add")) is ("add" in execute)  # whatever was asked before
        if not runs:
            with pytest.raises(ToolloomError, match="may not be executed"):
                await session.run(api, {})


async def test_a_source_that_cannot_be_used_is_no_observation(
    sums: MakeSource, tmp_path: Path, cache: Cache
) -> None:
    """It stops the run, is not remembered, and the next run tries again; so does a file that
    decides a result and is gone."""
    broken = shelf.source(mcp="no-such-program", name="shelf")
    for _ in range(2):
        with pytest.raises(ToolloomError, match="no-such-program"):
            await run(Executions([broken], cache, 0), (tool("add"), {"a": 1, "b": 1}))
    executions = Executions([sums()], None, 0)
    assert executions.place(put(1)[0])
    (tmp_path / "sums.py").unlink()
    with pytest.raises(ToolloomError, match=r"sums\.py: cannot be read"):
        await run(executions, put(1))


async def test_a_run_that_was_stopped_goes_on_from_the_same_state(
    sums: MakeSource, cache: Cache, starts: Starts
) -> None:
    """Answered calls are made again, once, before the first new one; a whole sample starts nothing."""
    source = sums(environment=("STARTS",))

    async def play(where: Cache | None, times: int) -> list[Any]:
        return responses(await run(Executions([source], where, 0), *[put(2)] * times))

    assert await play(None, 4) == [2, 4, 6, 8]
    assert await play(cache, 2) == [2, 4]
    for _ in range(2):
        assert await play(cache, 4) == [2, 4, 6, 8]
        assert starts() == 3


FRAGILE = """
import os
from pathlib import Path
def once():
    if Path(%r).exists():
        os._exit(1)
    Path(%r).touch()
    return "done"
def put(number):
    return number
"""


async def test_a_state_that_cannot_be_brought_about_again_ends_one_dialogue(
    tmp_path: Path, cache: Cache
) -> None:
    """A call that ends its process when it is made again is told as a crash of the next one."""
    file, seen = tmp_path / "fragile.py", str(tmp_path / "seen")
    file.write_text(FRAGILE % (seen, seen))
    once, after = ((tool(name, reference="fragile.py"), {}) for name in ("once", "put"))
    source = ApiSource(path=str(file), execute=("once", "put"), time_limit=5)
    for calls in ([once], [once, after]):
        first, *rest = await run(Executions([source], cache, 0), *calls)
        assert first.observation.response == "done"
    assert rest[0].execution.failure is Failure.CRASH


async def test_what_decides_a_result_is_in_its_key(
    sums: MakeSource, cache: Cache, starts: Starts
) -> None:
    """Sample, attempt, seed, settings, file, earlier calls and arguments: a change asks anew."""
    source = sums(environment=("STARTS",))

    async def play(*at: str, of: ApiSource = source, seed: int = 0, first: int = 1) -> int:
        async with Session(Executions([of], cache, seed), *at or ("s1",)) as session:
            for number in (first, 2):
                await session.run(*put(number))
        return starts()

    assert await play() == 1
    assert await play(seed=1) == 2
    assert await play("s2") == 3
    assert await play("s1", "replay") == 4
    assert await play(first=2) == 5
    assert await play(of=sums(environment=("STARTS",), time_limit=6)) == 6
    assert await play() == 6
    Path(source.path).write_text(CODE + "# changed\n")
    assert await play() == 7


@pytest.mark.parametrize(
    ("end", "failure"), [("wait", Failure.TIME_LIMIT), ("leave", Failure.CRASH)]
)
async def test_after_an_end_the_state_is_brought_about_again(
    sums: MakeSource, cache: Cache, end: str, failure: Failure
) -> None:
    """A call that took its process with it does not take what the others did."""
    calls = put(5), (tool(end, reference="sums.py"), {}), put(7)
    first = await run(Executions([sums(time_limit=1)], cache, 0), *calls)
    assert responses(first) == [5, None, 12]
    assert first[1].execution.failure is failure
    assert await run(Executions([sums(time_limit=1)], cache, 0), *calls) == first


async def test_one_sample_may_use_several_sources(
    sums: MakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state grows in each, and begins afresh in the next sample. However few processes may
    live, samples with two each do not wait for one another."""
    monkeypatch.setattr(sessions, "AT_ONCE", 1)
    executions = Executions([shelf.source(), sums()], None, 0)
    calls = put(1), (tool("count"), {}), put(1)
    async with asyncio.timeout(300):
        played = await asyncio.gather(*(run(executions, *calls, sample=f"s{i}") for i in range(2)))
    assert [responses(p) for p in played] == [[1, {"memory": 1, "file": 1}, 2]] * 2


async def test_calls_at_once_are_made_one_after_the_other(sums: MakeSource) -> None:
    """Parallel calls of a sample have an order, or their results would depend on chance."""
    async with Session(Executions([sums()], None, 0), "s1") as session:
        calls = (session.run(*put(1)) for _ in range(3))
        assert responses(await asyncio.gather(*calls)) == [1, 2, 3]
        # Half a character, as a model may write it, is an argument like any other.
        odd = await session.run(*put("\ud800"))
        assert odd.execution.failure is Failure.TOOL_ERROR


def test_a_folder_executes_each_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is found by what its APIs call it; two that cannot be told apart are an error."""
    monkeypatch.chdir(tmp_path)
    for folder in ("tools/one", "tools/two", "."):
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, "sums.py").write_text(CODE)

    def executions(path: str) -> Executions:
        return Executions([ApiSource(path=path, format="python", execute=("put",))], None, 0)

    api = tool("put", reference="tools/two/sums.py")
    where = executions("tools").place(api)
    assert where and where.functions and where.functions.path == Path("tools/two/sums.py")
    outside = tool("put", reference="tools/one/../../sums.py")
    assert not executions("tools").place(outside)
    assert executions(str(tmp_path / "tools")).place(api)
    monkeypatch.chdir(tmp_path / "tools" / "one")  # from here the files have no path but a name
    with pytest.raises(ToolloomError, match="2 files sums.py"):
        executions(str(tmp_path / "tools")).place(tool("put", reference="sums.py"))
    pool = Executions([ApiSource(path="shop", execute=("put",))], None, 0)
    assert not pool.place(tool("put", reference="sums.py"))  # by a name, of no module


async def played(executions: Executions, *calls: Call) -> Dialogue:
    """A dialogue of these calls, each executed."""
    query = toys.query(pool=tuple({api.function: api for api, _ in calls}.values()), intent=())
    messages = [Message(role="user", content=query.text)]
    for number, executed in enumerate(await run(executions, *calls, sample=query.id)):
        api, arguments = calls[number]
        asked, result = called((api.function, arguments, None), first=number)
        seen = {"content": executed.observation.model_dump_json(), "execution": executed.execution}
        messages += [asked, result.model_copy(update=seen)]
    messages.append(Message(role="assistant", content="Done."))
    return Dialogue(query=query, messages=tuple(messages))


async def test_only_what_was_executed_and_repeatable_is_made_again(
    sums: MakeSource, starts: Starts
) -> None:
    """State is built up again and failures repeat; a result of chance is found at its message,
    unless it is marked as one. What was simulated starts nothing."""
    executions = Executions([sums(environment=("STARTS",))], None, 0)
    fails, rolls = ((tool(name, reference="sums.py"), {}) for name in ("fail", "roll"))
    marked = tool("roll", reference="sums.py", repeatable=False), {}
    for calls in ([put(1), put(1), fails], [marked, put(1), marked]):
        assert await replay(await played(executions, *calls), executions) == ()
    dialogue, before = await played(executions, put(1), rolls), starts()
    simulated = tuple(
        m.model_copy(update={"execution": m.execution and Execution(kind="simulated")})
        for m in dialogue.messages
    )
    assert await replay(dialogue.model_copy(update={"messages": simulated}), executions) == ()
    assert starts() == before
    (found,) = await replay(dialogue, executions)
    assert (found.check, found.reason) == ("repeated_execution", Reason.NOT_REPEATABLE)
    assert found.turn == 4
