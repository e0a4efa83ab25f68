"""Worlds behind documents: what paths and schemas tell, and what the API agent makes of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest
import yaml
from support.toys import ALL_IN_TRAIN

from toolloom.agents.ask import Job
from toolloom.llm import FakeServer, Gateway
from toolloom.llm.fake.script import improvise
from toolloom.pipeline.apis.sources import imported
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.dataset.verify import verify
from toolloom.pipeline.run import Made, run_recipe
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.authoring import Authored, infer_world
from toolloom.pipeline.worlds.files import load_world
from toolloom.pipeline.worlds.inference import infer
from toolloom.pipeline.worlds.mutation import score
from toolloom.pipeline.worlds.series import tasks
from toolloom.pipeline.worlds.shelf import apis_of
from toolloom.pipeline.worlds.states import draw_state
from toolloom.schemas import Api, ApiSource, RecipeError, World, parse_recipe
from toolloom.schemas.endpoint import Endpoint

SHELTER = Path(__file__).parents[2] / "support" / "shelter.yaml"
NOW = "2026-03-16T09:00"


def apis() -> list[Api]:
    return [item for item in imported(ApiSource(path=str(SHELTER)))[0] if isinstance(item, Api)]


def inferred(answer: Any = improvise, asks: bool = False, **changes: Any) -> Authored:
    """The shelter's world; with an author's answers, if it asks."""
    told = [api.model_copy(update=changes) for api in apis()]

    async def work(url: str) -> Authored:
        async with Gateway(cache) as gateway:
            model = gateway.model(Endpoint(base_url=url, model="large"))
            return await infer_world(told, Job("worlds", "api", "d", 0, model), asks=asks)

    with TemporaryDirectory() as folder, (server := FakeServer(answer)).serve_in_thread():
        cache = Path(folder, "cache.sqlite")
        return asyncio.run(work(server.base_url))


@pytest.fixture(scope="module")
def world() -> World:
    found = inferred().world
    assert found
    return found


def test_what_a_document_tells(world: World) -> None:
    """Reads, writes and verbs of a table, with the document's names and schemas, sound, and with
    promises that find nearly all planted faults. A text is no record."""
    found = infer(apis(), "shelter")
    assert list(found.left) == ["weather"] and "no fields" in found.left["weather"]
    assert set(world.spec["entities"]) == {"pets", "visits"}
    by_name = {api.function: api for api in apis()}
    for api in apis_of(world):
        told = by_name[api.function]
        assert (api.parameters, api.returns) == (told.parameters, told.returns)
        assert api.description == told.description and api.source.kind == "world"
    assert score(world.spec).share > 0.9


def test_the_file_reads_as_it_was_made(world: World, tmp_path: Path) -> None:
    """It can be edited, and named by its path."""
    (tmp_path / "shelter.yaml").write_text(world.text, "utf-8")
    assert load_world(tmp_path / "shelter.yaml") == world.spec


def test_operations_do_what_their_method_and_path_say(world: World) -> None:
    """Found by filters, made, changed, marked and removed with what leans on it; numbers are keys,
    and moments have the form of the document."""
    machine = Machine(world.spec)
    state = draw_state(machine, rng_for(3), NOW)

    def call(operation: str, **arguments: Any) -> Any:
        nonlocal state
        state, response, error = machine.apply(state, operation, arguments, NOW)
        assert error is None, response
        return response

    pet = call("addPet", name="Biscuit", kind="dog", age=4)
    assert isinstance(pet["id"], int) and pet["arrived_at"] == "2026-03-16T09:00:00Z"
    assert pet["status"] == "available" and pet["favorite"] is False
    assert pet in call("listPets", kind="dog", q="isc")["data"]
    assert len(call("listPets", limit=2)["data"]) == 2
    assert all(each["kind"] == "cat" for each in call("listPets", kind="cat")["data"])
    assert call("reservePet", petId=pet["id"])["status"] == "reserved"
    assert call("unreservePet", petId=pet["id"])["status"] == "available"
    assert call("favoritePet", petId=pet["id"])["favorite"] is True
    assert pet["id"] in [each["id"] for each in call("listFavorites")["data"]]
    assert call("changePet", petId=pet["id"], age=5)["age"] == 5
    visited = next(row["pet_id"] for row in state["tables"]["visits"].values() if row["pet_id"])
    assert all(each["pet"]["id"] == visited for each in call("listVisits", petId=visited))
    call("removePet", petId=visited)
    after, response, error = machine.apply(state, "getPet", {"petId": visited}, NOW)
    assert after is state and error == "unknown_pet", response
    assert machine.apply(state, "getPet", {"petId": str(pet["id"])}, NOW)[2] == "invalid_arguments"


def test_tasks_are_drawn_in_it(world: World) -> None:
    """Their arguments fit the document's schemas."""
    drawn = [task for task in tasks(Machine(world.spec), 5, 40) if task]
    assert len(drawn) > 20 and {task.scenario for task in drawn} >= {"sequential", "multi_turn"}


def test_a_start_state_survives_json(world: World) -> None:
    """Keys that are numbers are texts in JSON, and numbers again when it is read."""
    from toolloom.pipeline.checks.world.interpreter import state_of

    machine = Machine(world.spec)
    state = draw_state(machine, rng_for(3), NOW)
    read = json.loads(json.dumps(state))
    again = state_of(read["tables"], read["me"], read["next"])
    assert again["tables"] == state["tables"]


def recipe(url: str, **changes: Any) -> Any:
    return parse_recipe(
        {
            "name": "behind",
            "model": {"base_url": url, "model": "large"},
            "apis": {"domains": 0, "sources": [{"path": str(SHELTER)}]},
            "worlds": {"infer": True, "rows": 6},
            "queries": {"count": 4},
            "tester": {"votes": 0},
            "splits": ALL_IN_TRAIN,
            **changes,
        },
        "a recipe",
    )


def rows(made: Made, stage: str, kind: str = "accepted") -> list[dict[str, Any]]:
    path = Path(made.summary.path) / stage / f"{kind}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_plays_in_it(tmp_path: Path) -> None:
    """Each API once: in the world, or simulated beside it. What the API agent answers is of no use
    here, and is kept; the world is what the document tells. `verify` replays its rows."""
    with (server := FakeServer()).serve_in_thread():
        made = run_recipe(recipe(server.base_url), tmp_path)
    pool = rows(made, "apis")
    assert sorted(api["function"] for api in pool) == sorted(api.function for api in apis())
    assert [api["function"] for api in pool if api["source"]["kind"] != "world"] == ["weather"]
    needs = rows(made, "queries")
    assert sum(bool(need.get("setting")) for need in needs) == 6 and len(needs) > 6
    assert (tmp_path / "worlds" / "shelter.yaml").read_text("utf-8").startswith("world: shelter")
    assert all(each["raw"] for each in rows(made, "worlds", "rejected"))
    assert made.published and verify(made.published.path).good
    card = (made.published.path / "README.md").read_text("utf-8")
    assert "11 of 12" in card and "1 is simulated" in card


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model": "none"}, "query agent is small or none"),
        ({"apis": {"domains": 0}}, "needs documents among"),
    ],
)
def test_where_nothing_can_come_of_it(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(RecipeError, match=told):
        recipe("http://127.0.0.1:9", **changes)


class Documented:
    """Writes rows, what the weather is, and when a pet can be reserved."""

    rows: ClassVar[Any] = {
        "entities": {"pets": {"data": [{"name": n} for n in ("Biscuit", "Moss", "Juno")]}}
    }
    operations: ClassVar[Any] = {
        "weather": {
            "about": "x",
            "args": {"day": "date"},
            "returns": "if(weekday($day) = 'Sunday', 'rain', 'sun')",
        },
        "reservePet": {
            "about": "x",
            "args": {"petId": "-> pets"},
            "steps": [
                {
                    "require": "petId.status = 'available'",
                    "else": "taken: {petId.name} is {petId.status}.",
                },
                {"update": "petId", "set": {"status": "'reserved'"}},
            ],
            "returns": "petId[full]",
        },
    }
    promises: ClassVar[Any] = {
        "weather": {"shows": "if(weekday($day) = 'Sunday', 'rain', 'sun')"},
        "reservePet": {
            "effects": ["pets status set"],
            "only_if": {"taken": "petId.status = 'available'"},
            "after": ["petId.status = 'reserved'"],
            "shows": "petId[full]",
        },
    }

    def __call__(self, body: Any) -> Any:
        said = [message["content"] for message in body["messages"]]
        if not said[0].startswith("You write a small world"):
            return improvise(body)
        if "Answer with `entities:`" in said[0]:
            return yaml.safe_dump(self.rows)
        if "Answer with `promises:`" in said[0]:
            known = {n: p for n, p in self.promises.items() if f"\n{n}(" in said[1]}
            return yaml.safe_dump({"promises": known, "policies": []})
        for name, operation in self.operations.items():
            if f"Write `{name}`" in said[1]:
                return yaml.safe_dump(operation)
        return "I would rather not."


def test_a_model_takes_it_as_its_first_draft() -> None:
    """It writes rows, a rule and what the document left open; what it refuses stays as it was, and
    no signature changes."""
    made = inferred(Documented(), asks=True)
    assert made.world and not made.left
    spec = made.world.spec
    assert {row["name"] for row in spec["entities"]["pets"]["data"]} == {"Biscuit", "Moss", "Juno"}
    assert list(spec["operations"]["reservePet"]["errors"]) == ["taken"]
    assert spec["promises"].keys() == spec["operations"].keys()
    assert not [e for e in made.outcome.rejected if "has none" in e.detail]
    assert spec["operations"]["removePet"]["steps"]
    by_name = {api.function: api for api in apis()}
    shown = {api.function: api.parameters for api in apis_of(made.world)}
    assert shown == {name: api.parameters for name, api in by_name.items()}
    assert made.asked > 2 and any("rather not" in r for e in made.outcome.rejected for r in e.raw)


def test_a_document_without_descriptions_is_written_to() -> None:
    """What the author says of an operation stands where the document says nothing."""
    made = inferred(Documented(), asks=True, description="")
    assert made.world
    assert made.world.spec["operations"]["reservePet"]["about"] == "x"


def test_mistakes_in_rows_are_told_with_their_line_and_once() -> None:
    """What is wrong in every row is one line."""

    class Untidy(Documented):
        rows: ClassVar[Any] = {
            "entities": {
                "pets": {
                    "data": [{"name": n, "status": "gone"} for n in ("Biscuit", "Moss", "Juno")]
                }
            }
        }

    made = inferred(Untidy(), asks=True)
    (told,) = {e.detail for e in made.outcome.rejected if "gone" in e.detail}
    assert "line 5" in told and "(3 times)" in told and told.count("gone") == 1


def test_a_signature_that_a_model_changes_is_refused() -> None:
    class Changes(Documented):
        operations: ClassVar[Any] = {
            "weather": {"about": "x", "args": {"town": "text"}, "returns": "$town"},
            "reservePet": {
                **Documented.operations["reservePet"],
                "returns": "petId[this.name as petName]",
            },
        }

    made = inferred(Changes(), asks=True)
    told = " ".join(each.detail for each in made.outcome.rejected)
    assert "no parameter `town`" in told and "`day` is missing" in told
    assert "The response has no petName" in told
    assert made.world and not made.world.spec["operations"]["reservePet"]["errors"]
