"""A world served over MCP, to the official client."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from jsonschema import Draft202012Validator
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.checks.world.signatures import parameters, returns
from toolloom.pipeline.worlds.library import load_world
from toolloom.pipeline.worlds.soundness import walk

LIBRARY = Path(__file__).parents[2] / "support" / "library.yaml"
COMMAND = "from toolloom.cli import main; main()"


def session() -> Client:
    args = ["-c", COMMAND, "world", "serve", str(LIBRARY), "--seed", "3"]
    return Client(stdio_client(StdioServerParameters(command=sys.executable, args=args)))


async def test_a_client_calls_operations_and_sessions_do_not_see_each_other() -> None:
    """Tools with their schemas, results, errors as such, and a state that each session has."""
    async with session() as one, session() as other:
        tools = (await one.list_tools()).tools
        assert {tool.name for tool in tools} >= {"renew", "place_holds"}
        books = json.loads((await one.call_tool("search_books", {})).content[0].text)
        before = json.loads((await one.call_tool("list_holds", {})).content[0].text)
        wanted = {"book_ids": [books[0]["book_id"], "BOO-0"]}
        failed = await one.call_tool("place_holds", wanted)
        assert failed.is_error
        assert "unknown_book" in failed.content[0].text
        held = {hold["title"] for hold in before if hold["status"] != "cancelled"}
        free = next(book for book in books if book["title"] not in held)
        done = await one.call_tool("place_holds", {"book_ids": [free["book_id"]]})
        assert not done.is_error
        mine, theirs = [
            json.loads((await client.call_tool("list_holds", {})).content[0].text)
            for client in (one, other)
        ]
        assert (len(mine), theirs) == (len(before) + 1, before)


def test_schemas_take_what_the_interpreter_takes() -> None:
    """Arguments of every call of a walk, and responses of those that succeed."""
    machine = Machine(load_world(LIBRARY))
    for call in walk(machine, 2, 4, 60):
        spec = machine.world["operations"][call.name]
        takes = Draft202012Validator(parameters(spec["args"]))
        assert takes.is_valid(call.args) or call.error == "invalid_arguments"
        if call.error is None:
            assert Draft202012Validator(returns(spec["shape"]) or {}).is_valid(call.response)


def test_an_item_of_a_list_is_called_as_the_list_says() -> None:
    """`option_ids` holds options, whatever their entity is called."""
    ref = {"type": "ref", "entity": "dishes", "noun": "dish"}
    takes = {"option_ids": {"type": "list", "of": ref}, "dish_id": ref}
    properties = parameters(takes)["properties"]
    assert properties["option_ids"]["items"]["description"] == "The option's id."
    assert properties["dish_id"]["description"] == "The dish's id."
