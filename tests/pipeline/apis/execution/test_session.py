"""Sessions: fresh state for each sample, and nothing executed twice."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from toolloom.llm.cache import Cache
from toolloom.pipeline.apis.execution import session as sessions
from toolloom.pipeline.apis.execution.session import Executions, replay
from toolloom.schemas import (
    Ability,
    Api,
    ApiSource,
    Dialogue,
    Execution,
    Failure,
    FunctionCall,
    Message,
    Query,
    Reason,
    Scenario,
    Source,
    ToolCall,
    ToolloomError,
)

MakeTool = Callable[..., Api]
MakeSource = Callable[..., ApiSource]
Starts = Callable[[], int]

CODE = """
import os, time
if name := os.environ.get("STARTS"):
    with open(name, "a") as file:
        file.write("line\\n")
total = 0
def put(number):
    global total
    total += number
    return total
def wait():
    time.sleep(60)
def leave():
    os._exit(1)
"""


@pytest.fixture
async def cache(tmp_path: Path) -> AsyncIterator[Cache]:
    made = Cache(tmp_path / "cache.sqlite")
    yield made
    await made.close()


@pytest.fixture
def sums(tmp_path: Path) -> MakeSource:
    file = tmp_path / "sums.py"
    file.write_text(CODE)

    def make(**changes: Any) -> ApiSource:
        fields = {"path": str(file), "execute": ("put", "wait", "leave"), "time_limit": 5}
        return ApiSource(**{**fields, **changes})

    return make


async def counts(workshop: Executions, api: Api, times: int, sample: str = "s1") -> list[Any]:
    async with workshop.session(sample) as session:
        return [(await session.run(api, {})).observation.response for _ in range(times)]


async def test_only_what_the_recipe_names_is_executed(shelf: MakeSource, tool: MakeTool) -> None:
    """Execution is opt-in: by source and by name; the rest is refused if asked for."""
    workshop = Executions([shelf(execute=("add",))], None, 0)
    assert workshop.executes(tool("add"))
    assert workshop.executes(tool("add", function="add_2"))  # the name it has in the pool
    assert not workshop.executes(tool("count"))
    assert not workshop.executes(tool("add", reference="another"))
    assert not Executions([shelf(execute=())], None, 0).executes(tool("add"))
    async with workshop.session("s1") as session:
        assert not session.runs(tool("count"))
        with pytest.raises(ToolloomError, match="may not be executed"):
            await session.run(tool("count"), {})


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "count", "function": "add"},
        {"name": "add", "source": Source(kind="mcp", reference="shelf", operation="count")},
        {"name": "add_count", "function": "add_2"},
        {"name": "os.add", "source": Source(kind="mcp", reference="shelf", operation="os.remove")},
    ],
)
def test_no_record_runs_another_operation_under_a_name_that_may_run(
    shelf: MakeSource, tool: MakeTool, changes: dict[str, Any]
) -> None:
    """What runs must be named itself: a pool of anyone's pairs names and operations as it likes."""
    workshop = Executions([shelf(execute=("add", "add_2", "os.add"))], None, 0)
    assert not workshop.executes(tool(**changes))
    assert workshop.executes(tool("add"))  # whatever was asked before


def test_an_operation_is_named_as_its_record_writes_it(shelf: MakeSource, tool: MakeTool) -> None:
    """As it is, with its module before it, made legal, or made unique."""
    source = Source(kind="mcp", reference="shelf", operation="files.read")
    api = tool("shelf.files.read", function="files_read_2", source=source)
    for name in ("files.read", "files_read", "files_read_2", "shelf.files.read"):
        assert Executions([shelf(execute=(name,))], None, 0).executes(api)
    assert not Executions([shelf(execute=("read",))], None, 0).executes(api)


async def test_a_file_that_cannot_be_read_is_told(
    sums: MakeSource, tool: MakeTool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What decides a result and is gone stops the run with a message."""
    put = tool("put", reference="sums.py")
    workshop = Executions([sums()], None, 0)
    assert workshop.executes(put)
    (tmp_path / "sums.py").unlink()
    async with workshop.session("s1") as session:
        with pytest.raises(ToolloomError, match=r"sums\.py: cannot be read"):
            await session.run(put, {"number": 1})


async def test_every_sample_has_a_state_of_its_own(shelf: MakeSource, tool: MakeTool) -> None:
    """State grows within a sample, and begins afresh in the next."""
    workshop = Executions([shelf()], None, 0)
    for sample in ("s1", "s2"):
        assert await counts(workshop, tool("count"), 2, sample) == [
            {"memory": 1, "file": 1},
            {"memory": 2, "file": 2},
        ]


async def test_an_execution_says_how_it_came_about(shelf: MakeSource, tool: MakeTool) -> None:
    """Who executed it, how it failed, and the hash of all that was observed."""
    async with Executions([shelf()], None, 0).session("s1") as session:
        good = (await session.run(tool("add"), {"a": 1, "b": 2})).execution
        again = (await session.run(tool("add"), {"a": 2, "b": 1})).execution
        bad = (await session.run(tool("fail"), {})).execution
    assert (good.kind, good.by, good.failure) == ("executed", "mcp:shelf", None)
    assert len(good.digest) == 64 and good.digest == again.digest != bad.digest
    assert bad.failure is Failure.TOOL_ERROR


async def test_what_was_executed_is_never_executed_again(
    shelf: MakeSource, tool: MakeTool, cache: Cache, starts: Starts
) -> None:
    """A second run on the same cache gives the same and starts nothing."""
    source = shelf(environment=("STARTS",))
    first = await counts(Executions([source], cache, 0), tool("roll"), 3)
    assert starts() == 1
    assert await counts(Executions([source], cache, 0), tool("roll"), 3) == first
    assert starts() == 1


async def test_a_run_that_was_stopped_goes_on_from_the_same_state(
    sums: MakeSource, tool: MakeTool, cache: Cache, starts: Starts
) -> None:
    """The calls that were answered are made again, once, before the first new one."""
    source, put = sums(environment=("STARTS",)), tool("put", reference="sums.py")

    async def run(where: Cache | None, times: int) -> list[Any]:
        async with Executions([source], where, 0).session("s1") as session:
            return [
                (await session.run(put, {"number": 2})).observation.response for _ in range(times)
            ]

    assert await run(None, 4) == [2, 4, 6, 8]
    assert await run(cache, 2) == [2, 4]
    assert await run(cache, 4) == [2, 4, 6, 8]
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
    tmp_path: Path, tool: MakeTool, cache: Cache
) -> None:
    """A call that ends its process when it is made again is told as a crash of the next one."""
    file, seen = tmp_path / "fragile.py", str(tmp_path / "seen")
    file.write_text(FRAGILE % (seen, seen))
    once, put = (tool(name, reference="fragile.py") for name in ("once", "put"))
    source = ApiSource(path=str(file), execute=("once", "put"), time_limit=5)
    async with Executions([source], cache, 0).session("s1") as session:
        assert (await session.run(once, {})).observation.response == "done"
    async with Executions([source], cache, 0).session("s1") as session:
        assert (await session.run(once, {})).observation.response == "done"
        assert (await session.run(put, {"number": 2})).execution.failure is Failure.CRASH


KILLED = """
import asyncio, os, sys
from toolloom.llm.cache import Cache
from toolloom.pipeline.apis.execution.session import Executions
from toolloom.schemas import Api, ApiSource, Source

async def main():
    source = ApiSource(path=sys.argv[1], execute=("put",), environment=("STARTS",))
    api = Api(category="c", tool="t", name="put", function="put", description="Adds.",
              parameters={"type": "object"},
              source=Source(kind="python", reference="sums.py", operation="put"))
    workshop = Executions([source], Cache(sys.argv[2]), 0)
    async with workshop.session("s1") as session:
        for number in range(3):
            await session.run(api, {"number": number})
        os.kill(os.getpid(), 9)

asyncio.run(main())
"""


async def test_a_run_that_was_killed_ends_with_the_same_results(
    sums: MakeSource, tool: MakeTool, tmp_path: Path, starts: Starts
) -> None:
    """kill -9 in the middle of a sample: the next run ends alike, the one after starts nothing."""
    source, put = sums(environment=("STARTS",)), tool("put", reference="sums.py")

    async def run(cache: Cache | None) -> list[Any]:
        async with Executions([source], cache, 0).session("s1") as session:
            return [await session.run(put, {"number": n}) for n in range(5)]

    file = tmp_path / "cache.sqlite"
    killed = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", KILLED, source.path, str(file)),
        env={**os.environ, "TMPDIR": str(tmp_path)},  # its working folder stays behind
    )
    assert await killed.wait() == -9
    unbroken = await run(None)
    cache = Cache(file)
    assert await run(cache) == unbroken
    assert starts() == 3
    assert await run(cache) == unbroken
    assert starts() == 3
    await cache.close()


async def test_what_decides_a_result_is_in_its_key(
    sums: MakeSource, tool: MakeTool, cache: Cache, starts: Starts
) -> None:
    """Sample, attempt, seed, settings, file, earlier calls and arguments: a change asks anew."""
    put = tool("put", reference="sums.py")

    async def run(source: ApiSource, seed: int, sample: str, attempt: str, *puts: int) -> int:
        workshop = Executions([source], cache, seed)
        async with workshop.session(sample, attempt) as session:
            for number in puts:
                await session.run(put, {"number": number})
        return starts()

    source = sums(environment=("STARTS",))
    cases: list[tuple[Any, ...]] = [
        (source, 0, "s1", "play", 1, 2),
        (source, 1, "s1", "play", 1, 2),
        (source, 0, "s2", "play", 1, 2),
        (source, 0, "s1", "replay", 1, 2),
        (source, 0, "s1", "play", 2, 2),
        (sums(environment=("STARTS",), time_limit=6), 0, "s1", "play", 1, 2),
    ]
    assert [await run(*case) for case in cases] == [1, 2, 3, 4, 5, 6]
    assert await run(*cases[0]) == 6
    Path(source.path).write_text(CODE + "# changed\n")
    assert await run(*cases[0]) == 7


@pytest.mark.parametrize("end", ["wait", "leave"])
async def test_after_an_end_the_state_is_brought_about_again(
    sums: MakeSource, tool: MakeTool, end: str, cache: Cache
) -> None:
    """A call that took its process with it does not take what the others did."""
    put, other = tool("put", reference="sums.py"), tool(end, reference="sums.py")

    async def play() -> list[Any]:
        async with Executions([sums(time_limit=5)], cache, 0).session("s1") as session:
            return [
                await session.run(put, {"number": 5}),
                await session.run(other, {}),
                await session.run(put, {"number": 7}),
            ]

    first = await play()
    assert [e.observation.response for e in first] == [5, None, 12]
    assert first[1].execution.failure in (Failure.TIME_LIMIT, Failure.CRASH)
    assert await play() == first


async def test_one_sample_may_use_several_sources(
    shelf: MakeSource, sums: MakeSource, tool: MakeTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few processes may live, samples with two each do not wait for one another."""
    monkeypatch.setattr(sessions, "AT_ONCE", 1)
    workshop = Executions([shelf(), sums()], None, 0)

    async def play(sample: str) -> list[Any]:
        async with workshop.session(sample) as session:
            return [
                (await session.run(tool("put", reference="sums.py"), {"number": 1})),
                (await session.run(tool("count"), {})),
                (await session.run(tool("put", reference="sums.py"), {"number": 1})),
            ]

    async with asyncio.timeout(300):
        played = await asyncio.gather(*(play(f"s{i}") for i in range(3)))
    assert [[e.observation.response for e in p] for p in played] == [
        [1, {"memory": 1, "file": 1}, 2]
    ] * 3


async def test_calls_at_once_are_made_one_after_the_other(sums: MakeSource, tool: MakeTool) -> None:
    """Parallel calls of a sample have an order, or their results would depend on chance."""
    put = tool("put", reference="sums.py")
    async with Executions([sums()], None, 0).session("s1") as session:
        runs = (session.run(put, {"number": 1}) for _ in range(3))
        assert [e.observation.response for e in await asyncio.gather(*runs)] == [1, 2, 3]


async def test_a_source_that_cannot_be_used_is_no_observation(
    shelf: MakeSource, tool: MakeTool, cache: Cache
) -> None:
    """It stops the run, is not remembered, and the next run tries again."""
    broken = shelf(mcp="no-such-program", name="shelf")
    for _ in range(2):
        async with Executions([broken], cache, 0).session("s1") as session:
            with pytest.raises(ToolloomError, match="no-such-program"):
                await session.run(tool("add"), {"a": 1, "b": 1})


async def test_arguments_may_hold_any_characters(sums: MakeSource, tool: MakeTool) -> None:
    """Half a character, as a model may write it, is an argument like any other."""
    async with Executions([sums()], None, 0).session("s1") as session:
        seen = await session.run(tool("put", reference="sums.py"), {"number": "\ud800"})
    assert seen.execution.failure is Failure.TOOL_ERROR


def test_a_folder_executes_each_of_its_files(
    tmp_path: Path, tool: MakeTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is found by what its APIs call it; two that cannot be told apart are an error."""
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        (tmp_path / "tools" / name).mkdir(parents=True)
        (tmp_path / "tools" / name / "sums.py").write_text(CODE)
    relative = Executions([ApiSource(path="tools", execute=("put",))], None, 0)
    place = relative.place(tool("put", reference="tools/two/sums.py"))
    assert place and place.file == Path("tools/two/sums.py")
    outside = tool("put", reference="tools/one/../../sums.py")
    (tmp_path / "sums.py").write_text(CODE)
    assert not relative.executes(outside)
    absolute = Executions([ApiSource(path=str(tmp_path / "tools"), execute=("put",))], None, 0)
    assert absolute.executes(tool("put", reference="tools/two/sums.py"))
    monkeypatch.chdir(tmp_path / "tools" / "one")  # from here the files have no path but a name
    absolute = Executions([ApiSource(path=str(tmp_path / "tools"), execute=("put",))], None, 0)
    with pytest.raises(ToolloomError, match="2 files sums.py"):
        absolute.executes(tool("put", reference="sums.py"))


async def played(workshop: Executions, *calls: tuple[Api, dict[str, Any]]) -> Dialogue:
    """A dialogue of these calls, each executed."""
    pool = tuple({api.function: api for api, _ in calls}.values())
    query = Query(
        id="q1",
        ability=Ability.CALL,
        scenario=Scenario.SINGLE,
        now=dt.datetime(2026, 3, 2, 9, 30),
        pool=pool,
        intent=(),
        text="Look into the shelf.",
    )
    messages = [Message(role="user", content=query.text)]
    async with workshop.session("q1") as session:
        for number, (api, arguments) in enumerate(calls):
            name = f"call_{number}"
            asked = FunctionCall(name=api.function, arguments=arguments)
            messages.append(
                Message(role="assistant", tool_calls=(ToolCall(id=name, function=asked),))
            )
            executed = await session.run(api, arguments)
            messages.append(
                Message(
                    role="tool",
                    content=executed.observation.model_dump_json(),
                    tool_call_id=name,
                    name=api.function,
                    execution=executed.execution,
                )
            )
    return Dialogue(query=query, messages=tuple(messages))


async def test_calls_that_can_be_repeated_give_no_finding(
    shelf: MakeSource, tool: MakeTool
) -> None:
    """State that calls build up is built up again; failures repeat as well."""
    workshop = Executions([shelf()], None, 0)
    calls = [(tool("count"), {}), (tool("count"), {}), (tool("fail"), {})]
    assert await replay(await played(workshop, *calls), workshop) == ()


async def test_a_result_of_chance_is_found(shelf: MakeSource, tool: MakeTool) -> None:
    """The finding names the message, and both results."""
    workshop = Executions([shelf()], None, 0)
    dialogue = await played(workshop, (tool("count"), {}), (tool("roll"), {}))
    (finding,) = await replay(dialogue, workshop)
    assert (finding.check, finding.reason) == ("repeated_execution", Reason.NOT_REPEATABLE)
    assert finding.turn == 4
    assert f"roll returned {dialogue.messages[4].observation().response!r}, then".replace(
        "'", '"'
    ) in (finding.detail)


async def test_a_result_that_may_differ_is_let_be(shelf: MakeSource, tool: MakeTool) -> None:
    """What is marked as not repeatable may differ, and the calls after it still count."""
    workshop = Executions([shelf()], None, 0)
    marked = tool("roll", repeatable=False)
    dialogue = await played(workshop, (marked, {}), (tool("count"), {}), (marked, {}))
    assert await replay(dialogue, workshop) == ()


async def test_what_was_played_is_not_executed(
    shelf: MakeSource, tool: MakeTool, starts: Callable[[], int]
) -> None:
    """A dialogue without executed calls starts nothing."""
    workshop = Executions([shelf(environment=("STARTS",))], None, 0)
    dialogue = await played(workshop, (tool("count"), {}))
    simulated = [
        m.model_copy(update={"execution": m.execution and Execution(kind="simulated")})
        for m in dialogue.messages
    ]
    changed = dialogue.model_copy(update={"messages": tuple(simulated)})
    assert await replay(changed, workshop) == ()
    assert starts() == 1
